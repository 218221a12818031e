package nn

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// Probe is the op of one site in two little programs of its own, with its plain forward
// and with a kernel, on the same random inputs. A plugin is another process, whose threads
// stay awake for a moment and take the cores from whatever comes next. So the op has the
// neighbours that it has in a model: a matrix product of the host before it and another
// after it, forward and backward.
type Probe struct {
	plain, fused *autograd.Program
	inputs       probeInputs
}

// probers has a function for each op that modules of this package use: it makes a module
// with the facts of the site, lets it record its forward between neighbours, and returns
// the values that the loss depends on, or the loss itself.
func probers() map[core.Op]func(*prober) []*autograd.Value {
	return map[core.Op]func(*prober) []*autograd.Value{
		core.RMSNorm:            probeRMSNorm,
		core.AddRMSNorm:         probeAddRMSNorm,
		core.Linear:             probeLinear,
		core.LinearW8A8:         probeLinearW8A8,
		core.SharedExpertFFN:    probeSharedExpertFFN,
		core.QKV:                probeQKV,
		core.AttentionPre:       probePre,
		core.GateUpSwiGLU:       probeGateUp,
		core.SwiGLU:             probeSwiGLU,
		core.RoPE:               probeRope,
		core.MoEGate:            probeGate,
		core.MoEExperts:         probeMoE,
		core.Attention:          probeAttention,
		core.LinearCrossEntropy: probeLoss,
		core.PagedAttention:     probePaged,
		core.ReshapeAndCache:    probePaged,
	}
}

func probeRMSNorm(p *prober) []*autograd.Value {
	n := &RMSNorm{Weight: p.weight(p.site.facts.Dim), site: p.site}
	return []*autograd.Value{p.after(n.Forward(p.Context, p.before(p.site.rowsPerToken(), p.site.facts.Dim)))}
}

func probeAddRMSNorm(p *prober) []*autograd.Value {
	d := p.site.facts.Dim
	own := &site{path: p.site.path, op: core.RMSNorm, facts: p.site.facts, use: p.site.use}
	n := &RMSNorm{Weight: p.weight(d), sum: p.site, site: own}
	h, normed := n.ofSum(p.Context, p.before(d), p.before(d), true)
	return []*autograd.Value{p.after(normed), p.after(h)}
}

// probeLinear measures at most probeElems elements of the weight, as probeLoss does.
func probeLinear(p *prober) []*autograd.Value {
	f := &p.site.facts
	f.Out = min(f.Out, max(1, probeElems/f.Dim))
	l := &Linear{Weight: p.weight(f.Out, f.Dim), site: p.site}
	if f.Bias {
		l.Bias = p.input(f.Out)
		l.Bias.Frozen = f.Frozen
	}
	if f.Rank > 0 {
		l.adapter = &adapter{Adaptation: Adaptation{Rank: f.Rank, Scale: f.Scale}, a: p.input(f.Rank, f.Dim),
			b: p.input(f.Out, f.Rank)}
	}
	return []*autograd.Value{p.after(l.Forward(p.Context, p.before(f.Dim)))}
}

// probeLinearW8A8 does, too.
func probeLinearW8A8(p *prober) []*autograd.Value {
	f := &p.site.facts
	f.Out = min(f.Out, max(1, probeElems/f.Dim))
	return []*autograd.Value{p.after(p.int8Linear(p.site).Forward(p.Context, p.before(f.Dim)))}
}

// int8Linear is a layer with the facts of linear_w8a8.
func (p *prober) int8Linear(s *site) *Linear {
	f := s.facts
	weight := p.next(&Param{Tensor: core.Tensor{DType: core.Int8, Shape: core.Shape{f.Out, f.Dim}}, Frozen: true})
	l := &Linear{Weight: weight, site: s, int8: &int8Layer{scaling: f.Scaling}}
	if f.Scaling == core.StaticScaling {
		ints := func(n int) core.Tensor { // zeros do: values hardly matter
			return p.next(&Param{Tensor: core.Tensor{DType: core.Int32, Shape: core.Shape{n}}, Frozen: true}).Tensor
		}
		l.int8.inputScale, l.int8.inputOffset = p.input(1).Tensor, ints(1)
		l.int8.deqScale, l.int8.quantBias = p.input(f.Out).Tensor, ints(f.Out)
	} else if f.Bias {
		l.Bias = p.input(f.Out)
		l.Bias.Frozen = true
	}
	return l
}

// probeSharedExpertFFN measures at most probeElems elements of the three weights.
func probeSharedExpertFFN(p *prober) []*autograd.Value {
	f := &p.site.facts
	f.Intermediate = min(f.Intermediate, max(1, probeElems/(3*f.Dim)))
	layer := func(out, in int) *Linear {
		weight := p.next(&Param{Tensor: core.Tensor{DType: core.Int8, Shape: core.Shape{out, in}}, Frozen: true})
		return &Linear{Weight: weight, int8: &int8Layer{scaling: core.DynamicScaling},
			site: &site{facts: core.Facts{DType: core.Float32, Dim: in, Out: out, Scaling: core.DynamicScaling}}}
	}
	m := &MLP{block: p.site, site: &site{facts: swigluFacts(f.Intermediate, f.Layout)}}
	if f.Layout == core.Packed {
		m.in = []*Linear{layer(2*f.Intermediate, f.Dim)}
	} else {
		m.in = []*Linear{layer(f.Intermediate, f.Dim), layer(f.Intermediate, f.Dim)}
	}
	m.down = layer(f.Dim, f.Intermediate)
	return []*autograd.Value{p.after(m.Forward(p.Context, p.before(f.Dim)))}
}

// probeQKV measures at most probeElems elements of the weights, too.
func probeQKV(p *prober) []*autograd.Value {
	f := &p.site.facts
	f.HeadDim = min(f.HeadDim, max(1, probeElems/(f.Dim*(f.Heads+2*f.KVHeads))))
	var layers []*Linear
	for _, heads := range []int{f.Heads, f.KVHeads, f.KVHeads} {
		l := &Linear{Weight: p.weight(heads*f.HeadDim, f.Dim)}
		if f.Bias {
			l.Bias = p.input(heads * f.HeadDim)
			l.Bias.Frozen = f.Frozen
		}
		layers = append(layers, l)
	}
	var read []*autograd.Value
	for _, y := range forwardAll(p.Context, p.site, layers, p.before(f.Dim)) {
		read = append(read, p.after(y))
	}
	return read
}

// probeGateUp does, too. As in a model, what swiglu is of is kept, and its value is not.
func probeGateUp(p *prober) []*autograd.Value {
	f := &p.site.facts
	f.Intermediate = min(f.Intermediate, max(1, probeElems/(2*f.Dim)))
	m := &MLP{gateUp: p.site, site: &site{facts: swigluFacts(f.Intermediate, f.Layout)}}
	if f.Layout == core.Packed {
		m.in = []*Linear{{Weight: p.weight(2*f.Intermediate, f.Dim)}}
	} else {
		m.in = []*Linear{{Weight: p.weight(f.Intermediate, f.Dim)}, {Weight: p.weight(f.Intermediate, f.Dim)}}
	}
	x := p.before(f.Dim)
	p.cheap()
	defer p.costly()
	return []*autograd.Value{p.after(m.hidden(p.Context, x))}
}

func probeSwiGLU(p *prober) []*autograd.Value {
	m := &MLP{site: p.site} // with the activation of its facts
	i := p.site.facts.Intermediate
	if p.site.facts.Layout == core.Packed {
		return []*autograd.Value{p.after(m.activate(p.Context, p.before(2*i)))}
	}
	return []*autograd.Value{p.after(m.activate(p.Context, p.before(i), p.before(i)))}
}

func probeRope(p *prober) []*autograd.Value {
	f := p.site.facts
	r := &Rope{&RopeTable{InvFreq: make([]float64, f.RotaryDim/2), Scale: 1}, p.site}
	q, k := r.Forward(p.Context, p.before(f.Heads, f.HeadDim), p.before(f.KVHeads, f.HeadDim))
	return []*autograd.Value{p.after(q), p.after(k)}
}

func probeGate(p *prober) []*autograd.Value {
	f := p.site.facts
	r := &Router{site: p.site, cfg: RouterConfig{Experts: f.Experts, TopK: f.TopK,
		Sigmoid: f.Scoring == core.ScoringSigmoid,
		Bias:    f.Bias, Groups: f.Groups, TopGroups: f.TopGroups, Normalize: f.Normalize, Scale: f.Scale}}
	if f.Bias {
		r.bias = p.input(f.Experts)
		r.bias.buffer = true
	}
	weights, _ := r.choose(p.Context, p.before(f.Experts))
	return []*autograd.Value{p.after(weights)}
}

func probeMoE(p *prober) []*autograd.Value {
	f := p.site.facts
	m := &MoE{site: p.site,
		gateUp: p.weight(f.Experts, 2*f.Intermediate, f.Dim), down: p.weight(f.Experts, f.Dim, f.Intermediate)}
	weights := p.Leaf(p.input(p.T(), f.TopK))
	return []*autograd.Value{p.after(m.experts(p.Context, p.before(f.Dim), weights, p.choices(f.TopK, f.Experts)))}
}

func probeAttention(p *prober) []*autograd.Value {
	f := p.site.facts
	a := &Attention{cfg: AttentionConfig{Heads: f.Heads, KVHeads: f.KVHeads, HeadDim: f.HeadDim}, site: p.site}
	return []*autograd.Value{p.after(a.attend(p.Context, p.before(f.Heads, f.HeadDim), p.before(f.KVHeads, f.HeadDim),
		p.before(f.KVHeads, f.HeadDim)))}
}

// probeElems is how large a part of the head's weight is measured: 64 MiB of float32. Time
// and memory are in proportion to it, plain or fused.
const probeElems = 16 << 20

// probeLoss gives each token a label, but for the last of a row. Nothing comes after it.
func probeLoss(p *prober) []*autograd.Value {
	f := &p.site.facts
	f.Vocab = min(f.Vocab, max(2, probeElems/f.Dim))
	for i := range p.batch.Labels {
		p.batch.Labels[i] = int32(i * 7919 % f.Vocab)
	}
	_, loss := p.site.headLoss(p.Context, &Linear{Weight: p.weight(f.Vocab, f.Dim)}, 0, p.before(f.Dim), nil, 0)
	return []*autograd.Value{loss}
}

// NewProbe builds both programs for batches of b rows of s positions below maxPosition,
// with their memory in mem; for inference they have no backward pass. The site belongs to
// a model of this package, which is only asked for what the site is: it is not changed,
// and its parameters are not read.
func NewProbe(mem core.Memory, at core.Site, k core.Kernel, b, s, maxPosition int,
	inference bool) (_ *Probe, err error) {
	p := &Probe{inputs: probeInputs{mem: mem, rng: rand.New(rand.NewPCG(1, 2)), inference: inference}}
	defer func() {
		if err != nil {
			p.Close()
			err = fmt.Errorf("nn: measure %s: %w", at.Path, err)
		}
	}()
	record := func(k core.Kernel) (*autograd.Program, error) {
		c, err := NewContext(mem, b, s, maxPosition)
		if err != nil {
			return nil, err
		}
		return p.inputs.record(c, at, k)
	}
	if p.plain, err = record(nil); err != nil {
		return nil, err
	}
	if p.fused, err = record(k); err != nil {
		return nil, err
	}
	return p, nil
}

// rest is longer than any thread of a plugin stays awake in case there is more to do.
const rest = 300 * time.Microsecond

// atOtherSites keeps the host's threads at work for as long as the sites between two of one kernel do in
// a small model. A plugin's threads fall asleep in that time, as they do in a run, where waking them
// can take longer than a small op. Back to back they would be found awake.
func atOtherSites() {
	start := clock.Now()
	simd.Parallel(simd.Threads(), 1, func(lo, hi int) {
		for clock.Since(start) < rest {
		}
	})
}

// Run runs a program, forward and, unless for inference, backward, and returns the time
// that the op took, and that its neighbours took.
func (p *Probe) Run(ctx context.Context, fused bool) (op, neighbours time.Duration, err error) {
	program := p.program(fused)
	program.ResetStats()
	atOtherSites()
	if _, err := program.Forward(ctx); err != nil {
		return 0, 0, err
	}
	if !p.inputs.inference {
		atOtherSites()
	}
	if err := program.Backward(ctx); err != nil {
		return 0, 0, err
	}
	for _, s := range program.Stats() {
		if s.Op == neighbour {
			neighbours += s.Time
		} else {
			op += s.Time
		}
	}
	return op, neighbours, nil
}

// Bytes returns the memory that a program plans for activations and their gradients.
func (p *Probe) Bytes(fused bool) int {
	program := p.program(fused)
	return program.Bytes() - p.inputs.gradients
}

func (p *Probe) program(fused bool) *autograd.Program {
	if fused {
		return p.fused
	}
	return p.plain
}

// Close gives the memory back.
func (p *Probe) Close() {
	for _, program := range []*autograd.Program{p.plain, p.fused} {
		if program != nil {
			program.Close()
		}
	}
	for _, c := range p.inputs.caches {
		c.Free()
	}
	p.inputs.caches = nil
	for _, in := range p.inputs.params {
		in.free(p.inputs.mem)
	}
	p.plain, p.fused, p.inputs.params = nil, nil, nil
}
