package nn

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

const (
	neighbour = "neighbour" // the name of the operations beside the op that is measured
	// neighbourWidth makes the products of a program take about as long together as an op
	// that is one pass over memory. Longer, their noise would hide the op.
	neighbourWidth = 32
)

// RowsPerToken returns how many rows the op of a site has for each token of a batch: one,
// except for norms of heads.
func RowsPerToken(s core.Site) int {
	if s, ok := s.Hook.(*site); ok {
		return s.rowsPerToken()
	}
	return 1
}

// probeInputs are the weights and inputs of a probe's programs. Both read the same.
type probeInputs struct {
	mem       core.Memory
	rng       *rand.Rand
	params    []*Param
	caches    []*Cache            // of each program
	leaves    [][]*autograd.Value // of each program: those with a gradient
	gradients int                 // bytes of those that a program holds
	inference bool                // without gradients
}

// prober records one of the programs.
type prober struct {
	*Context
	site   *site
	inputs *probeInputs
	used   int // of inputs.params
}

// record builds the program with the kernel, or with the plain forward for nil.
func (in *probeInputs) record(c *Context, s core.Site, k core.Kernel) (*autograd.Program, error) {
	own, ok := s.Hook.(*site)
	forward := probers()[s.Op]
	if !ok || forward == nil {
		c.G.Release()
		return nil, fmt.Errorf("its plain forward of %s is no module of trainer/nn: compare it with a core.Measure of "+
			"your own", s.Op)
	}
	b := c.batch
	for i := range b.Positions {
		b.Positions[i], b.Labels[i] = int32(i%c.S), 0
		b.Keys[2*i], b.Keys[2*i+1] = int32(i-i%c.S), int32(i+1)
	}
	b.Divisor[0] = float32(c.T())
	p := &prober{Context: c, inputs: in, site: &site{path: s.Path, op: s.Op, facts: s.Facts, perToken: own.perToken,
		kernel: k, use: new(use)}}
	values := forward(p)
	loss := values[0]
	if len(loss.Shape()) > 0 {
		loss = average(c.G, values)
	}
	if c.err != nil {
		c.G.Release()
		return nil, c.err
	}
	var wrt []*autograd.Value
	in.gradients = 0
	for _, param := range in.params {
		if leaf := c.leaves[param]; leaf != nil && !param.Frozen && !param.buffer && !in.inference {
			wrt = append(wrt, leaf)
			in.gradients += len(param.Tensor.Data)
		}
	}
	in.leaves = append(in.leaves, wrt)
	return c.G.Compile(loss, wrt...)
}

// input returns the next parameter of random values.
func (p *prober) input(shape ...int) *Param {
	return p.next(&Param{Tensor: core.Tensor{DType: core.Float32, Shape: shape}})
}

// weight is input for a weight of the site.
func (p *prober) weight(shape ...int) *Param {
	f := p.site.facts
	return p.next(&Param{Tensor: core.Tensor{DType: f.WeightDType, Shape: shape}, Frozen: f.Frozen})
}

// next adds a parameter, unless the other program has added its like.
func (p *prober) next(param *Param) *Param {
	in := p.inputs
	if p.used == len(in.params) {
		param.Name = fmt.Sprintf("input%d", p.used)
		if err := param.alloc(in.mem); err != nil {
			p.fail(err)
			return param
		}
		if param.Tensor.DType != core.Int32 {
			scatter(in.rng, param.Tensor)
		}
		if param.Frozen && !in.inference {
			param.Changed() // never again, so that a kernel keeps what it makes of it, as in a run of training
		}
		in.params = append(in.params, param)
	}
	p.used++
	return in.params[p.used-1]
}

// scatter fills x with numbers between -0.5 and 0.5 that repeat after a while: weights may
// be large, and what their values are hardly matters.
func scatter(rng *rand.Rand, x core.Tensor) {
	const period = 4099 // prime, so that no two rows of a matrix are equal
	first := make([]float32, min(period, x.Elems()))
	for i := range first {
		first[i] = rng.Float32() - 0.5
	}
	x.Store(first, 0)
	for n := x.DType.Bytes(len(first)); n < len(x.Data); n *= 2 {
		copy(x.Data[n:], x.Data[:n])
	}
}

// before records the neighbour whose output the op reads: [T, axes...].
func (p *prober) before(axes ...int) *autograd.Value {
	x := p.G.Input("x", p.input(p.T(), neighbourWidth).Tensor)
	w := p.input(core.Shape(axes).Elems(), neighbourWidth)
	return p.product(x, w).Reshape(append([]int{p.T()}, axes...)...)
}

// after records the neighbour that reads an output of the op: y [T, ...].
func (p *prober) after(y *autograd.Value) *autograd.Value {
	width := y.Shape().Elems() / p.T()
	return p.product(y.Reshape(p.T(), width), p.input(neighbourWidth, width))
}

func (p *prober) product(x *autograd.Value, w *Param) *autograd.Value {
	op := linearOp(p.T(), w, false, core.InvalidDType)
	op.Name = neighbour
	return p.G.Apply(op, x, p.Leaf(w))
}

// choices returns k different experts for each token: [T, k].
func (p *prober) choices(k, experts int) *autograd.Value {
	t := core.Tensor{DType: core.Int32, Shape: core.Shape{p.T(), k}}
	var err error
	if t.Data, err = p.G.Alloc(4 * p.T() * k); err != nil {
		p.fail(fmt.Errorf("experts of %d tokens: %w", p.T(), err))
		t.Data = make([]byte, 4*p.T()*k)
	}
	rng := rand.New(rand.NewPCG(3, 4)) // the same for both programs
	ids := t.Int32s()
	order := rng.Perm(experts)
	for row := 0; row < len(ids); row += k {
		for i := range k { // the first k of a shuffle
			j := i + rng.IntN(experts-i)
			order[i], order[j] = order[j], order[i]
			ids[row+i] = int32(order[i])
		}
	}
	return p.G.Input("experts", t)
}

// average records the mean of each value, summed: a loss that reaches every element.
func average(g *autograd.Graph, values []*autograd.Value) *autograd.Value {
	b := &autograd.Backward{Run: func(_ context.Context, g *autograd.Grads) error {
		for _, d := range g.DIn {
			if !d.IsZero() {
				dx := d.Float32s()
				simd.Parallel(len(dx), grain, func(lo, hi int) {
					for i := range dx[lo:hi] {
						dx[lo+i] = 1 / float32(len(dx))
					}
				})
			}
		}
		return nil
	}}
	for i := range values {
		b.Wrt = append(b.Wrt, i)
	}
	return g.Apply(autograd.Op{Name: neighbour, Outputs: []autograd.Spec{autograd.Float32()}, Backward: b,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			total := 0.0
			for _, x := range in {
				total += sum64(x.Float32s()) / float64(len(x.Float32s()))
			}
			out[0].Float32s()[0] = float32(total)
			return nil
		}}, values...)
}
