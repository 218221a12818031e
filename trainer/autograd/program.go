package autograd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
)

// Program is a compiled graph: a tape of instructions over planned buffers.
type Program struct {
	tape   []*instr
	split  int // the first backward instruction
	loss   *slot
	params []*slot
	grads  map[*slot]*slot // of each parameter
	sums   overRuns
	within *Program // see Graph.Within
	blocks []block
	stats  []*Stat

	complete completion
	steps    []core.Step // room for those of a series
	looking  bool        // for what is not finite: nothing is updated
}

// Stat says what the instructions of one kind cost.
type Stat struct {
	Op     string        `json:"op"`
	Kernel string        `json:"kernel,omitempty"` // the fused kernel, empty for plain operations
	Pass   core.Pass     `json:"-"`
	Again  bool          `json:"-"` // a forward computed again, which is part of the backward pass; see Graph.Checkpoint
	Calls  int           `json:"calls"`
	Time   time.Duration `json:"-"`
	Work   core.Work     `json:"-"` // of all calls
}

// PassName returns "forward", "backward", or "recompute" for a forward computed again.
func (s *Stat) PassName() string { return passName(s.Pass, s.Again) }

func passName(p core.Pass, again bool) string {
	if again {
		return "recompute"
	}
	return p.String()
}

// Compile differentiates loss, a scalar, with respect to the parameters and plans the
// memory. Without parameters the program has no backward pass. Values read after a
// run must have been kept. Close gives the memory back. A graph is compiled once; after
// an error it holds no memory.
func (g *Graph) Compile(loss *Value, params ...*Value) (_ *Program, err error) {
	defer func() {
		if err != nil {
			g.Release()
		}
	}()
	p, err := g.program(loss, params)
	if err != nil {
		return nil, err
	}
	if p.within != nil {
		err = p.lieIn(p.within)
	} else {
		p.blocks, err = place(p.tape)
	}
	if err != nil {
		return nil, err
	}
	p.blocks = append(p.blocks, g.owned...)
	g.owned = nil
	for _, in := range p.tape {
		in.run = in.bind(in)
	}
	return p, nil
}

// Size is what a program would take and do, without being made.
type Size struct {
	Bytes     int    // of memory, for leaves that belong to the graph, activations and gradients
	Leaves    int    // bytes of these for leaves, which is all that a program takes within another
	Gradients int    // bytes of these for the gradients of the parameters, but for those of Update
	Stats     []Stat // of one run of both passes, by kind and without times

	Between map[string]Between // the passes, by path
	// Completes is when in one run of both passes the gradients become complete, in their order, and what is done behind
	// the last of them.
	Completes []Complete
}

// Between is what operations recorded under one path leave for the backward pass.
type Between struct {
	Kept  int       // bytes that stay in memory from the forward pass
	Again core.Work // what is computed again; see Graph.Checkpoint
}

// Size returns what the program that Compile would make comes to. It takes no memory, and
// gives back the graph's. The graph cannot be used again.
func (g *Graph) Size(loss *Value, params ...*Value) (Size, error) {
	defer g.Release()
	p, err := g.program(loss, params)
	if err != nil {
		return Size{}, err
	}
	var s Size
	for _, b := range g.owned {
		s.Leaves += len(b.data)
	}
	s.Bytes = s.Leaves
	for _, slots := range roots(p.tape) {
		s.Bytes += layout(slots.slots)
	}
	for _, grad := range p.grads {
		if grad.keep {
			s.Gradients += grad.spec.bytes()
		}
	}
	for _, in := range p.tape {
		in.stat.Calls++
		in.stat.Work = in.stat.Work.Plus(in.work)
	}
	for _, stat := range p.stats {
		s.Stats = append(s.Stats, *stat)
	}
	s.Between, s.Completes = p.between(), p.completes()
	return s, nil
}

func (p *Program) between() map[string]Between {
	all := map[string]Between{}
	for i, in := range p.tape {
		b := all[in.path]
		if in.again {
			b.Again = b.Again.Plus(in.work)
		}
		for _, s := range in.writes {
			if i < p.split && s.root == s && s.last >= p.split {
				b.Kept += s.spec.bytes()
			}
		}
		all[in.path] = b
	}
	return all
}

// program makes the tape, without memory.
func (g *Graph) program(loss *Value, params []*Value) (*Program, error) {
	if g.err != nil {
		return nil, g.err
	}
	if len(loss.shape) != 0 {
		return nil, fmt.Errorf("autograd: the loss must be a scalar, not %v", loss.shape)
	}
	loss.Keep()
	p := &Program{loss: loss.slot, grads: map[*slot]*slot{}, within: g.within}
	for _, v := range params {
		p.params = append(p.params, v.slot)
	}
	if err := g.differentiate(loss, params, p.grads); err != nil {
		return nil, err
	}
	p.tape = recompute(accumulate(dropDead(g.tape)))
	p.split = slices.IndexFunc(p.tape, func(in *instr) bool { return in.pass == core.Backward })
	if p.split < 0 {
		p.split = len(p.tape)
	}
	switch {
	case g.update != nil:
		p.update(g.update)
	case g.sums != nil:
		p.accumulate(g.sums)
	}
	p.marks()
	live(p.tape)
	byKind := map[Stat]*Stat{}
	for _, in := range p.tape {
		in.work = in.done()
		if in.stat != nil {
			continue
		}
		key := Stat{Op: in.op, Kernel: in.kernel, Pass: in.pass, Again: in.again}
		if byKind[key] == nil {
			s := key
			byKind[key] = &s
			p.stats = append(p.stats, &s)
		}
		in.stat = byKind[key]
	}
	return p, nil
}

// differentiate lets gorgonia record the backward pass on the tape.
func (g *Graph) differentiate(loss *Value, params []*Value, grads map[*slot]*slot) error {
	if len(params) == 0 {
		return nil
	}
	nodes := make(gorgonia.Nodes, len(params))
	for i, v := range params {
		nodes[i] = v.node
	}
	derivs, err := gorgonia.Grad(loss.node, nodes...)
	if err = cmp.Or(g.err, err); err != nil {
		return fmt.Errorf("autograd: differentiate: %w", err)
	}
	for i, d := range derivs {
		var terms []*slot
		for _, n := range g.addends(d, nil) {
			t, err := g.resolve(n)
			if err != nil {
				return err
			}
			terms = append(terms, t)
		}
		s := g.sum(terms, "")
		s.keep = true
		grads[params[i].slot] = s
	}
	return g.err
}

// Forward runs the forward pass and returns the loss.
func (p *Program) Forward(ctx context.Context) (float64, error) {
	if err := p.exec(ctx, p.tape[:p.split]); err != nil {
		return 0, err
	}
	return float64(p.loss.tensor.Float32s()[0]), nil
}

// Backward runs the backward pass; Forward must have run before on the same leaves.
func (p *Program) Backward(ctx context.Context) error { return p.exec(ctx, p.tape[p.split:]) }

func (p *Program) exec(ctx context.Context, tape []*instr) error {
	start := clock.Now()
	for len(tape) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, counted, err := p.next(ctx, tape)
		now := clock.Now()
		tape[0].stat.Time += now.Sub(start) - counted - tape[0].elsewhere
		start = now
		for _, in := range tape[:n] {
			in.stat.Calls++
			in.stat.Work = in.stat.Work.Plus(in.work)
			p.complete.after(in)
		}
		tape = tape[n:]
		if err != nil {
			in := tape[0]
			return fmt.Errorf("autograd: %s %s at %s: %w", in.op, passName(in.pass, in.again), in.path, err)
		}
	}
	return nil
}

// ErrFinite is returned by FirstNonFinite when every value is finite.
var ErrFinite = errors.New("every value is finite")

// FirstNonFinite runs both passes again and returns the path and kind of the first
// instruction that writes a NaN or an infinity. The leaves must not have changed. Sums over
// several runs begin anew.
func (p *Program) FirstNonFinite(ctx context.Context) (path, op string, err error) {
	p.Adding(false)
	p.looking = true
	defer func() { p.looking = false }()
	for _, in := range p.tape {
		if err := in.run(ctx); err != nil {
			return "", "", err
		}
		for _, s := range in.writes {
			if s.spec.DType == core.Float32 && slices.ContainsFunc(s.tensor.Float32s(), nonFinite) {
				return in.path, in.op + " " + passName(in.pass, in.again), nil
			}
		}
	}
	return "", "", ErrFinite
}

func nonFinite(f float32) bool { return math.Float32bits(f)&0x7f800000 == 0x7f800000 }

// Tensor returns the buffer of a kept value or a leaf, valid until the next run.
func (p *Program) Tensor(v *Value) core.Tensor { return v.slot.tensor.Reshape(v.shape...) }

// Grad returns the gradient of a parameter, valid until the next run. It panics when
// the program was not compiled for it.
func (p *Program) Grad(param *Value) core.Tensor {
	return p.grads[param.slot].tensor.Reshape(param.shape...)
}

// Stats returns what each kind of instruction has cost since ResetStats, in the order
// of first use. Do not change it.
func (p *Program) Stats() []*Stat { return p.stats }

// ResetStats sets the counters to zero.
func (p *Program) ResetStats() {
	for _, s := range p.stats {
		s.Calls, s.Time, s.Work = 0, 0, core.Work{}
	}
}

// HoldStats returns a function that makes the counters what they are now, whatever has run in between.
func (p *Program) HoldStats() (back func()) {
	held := make([]Stat, len(p.stats))
	for i, s := range p.stats {
		held[i] = *s
	}
	return func() {
		for i, s := range p.stats {
			*s = held[i]
		}
	}
}

// Bytes returns the memory that the program holds for activations and gradients.
func (p *Program) Bytes() int {
	n := 0
	for _, b := range p.blocks {
		n += len(b.data)
	}
	return n
}

// Len returns the number of instructions.
func (p *Program) Len() int { return len(p.tape) }

// Close gives the memory back; the program must not be used afterwards.
func (p *Program) Close() {
	release(p.blocks)
	p.blocks, p.tape = nil, nil
}
