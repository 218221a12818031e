package nn

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// probePre measures at most probeElems elements of the weights, too, as long as heads can be halved.
func probePre(p *prober) []*autograd.Value {
	f := &p.site.facts
	for f.Dim*f.HeadDim*(f.Heads+2*f.KVHeads) > probeElems && f.Heads%2 == 0 && f.KVHeads%2 == 0 {
		f.Heads, f.KVHeads = f.Heads/2, f.KVHeads/2
	}
	norm := func(dim, perToken int) *RMSNorm {
		return &RMSNorm{Weight: p.input(dim), site: &site{facts: core.Facts{Dim: dim, Eps: f.Eps, Offset: f.Offset}, perToken: perToken}}
	}
	a := &Attention{cfg: AttentionConfig{Heads: f.Heads, KVHeads: f.KVHeads, HeadDim: f.HeadDim, QKNorm: f.QKNorm},
		rope: &Rope{&RopeTable{InvFreq: make([]float64, f.RotaryDim/2), Scale: 1}, &site{facts: *f}}}
	whole := &pre{norm: norm(f.Dim, 1), name: "norm", attention: a, site: p.site}
	for _, heads := range []int{f.Heads, f.KVHeads, f.KVHeads} {
		a.in = append(a.in, p.preLinear(heads*f.HeadDim))
	}
	if f.QKNorm {
		a.qNorm, a.kNorm = norm(f.HeadDim, f.Heads), norm(f.HeadDim, f.KVHeads)
	}
	residual := p.before(f.Dim)
	var x *autograd.Value
	if f.Residual {
		x = p.before(f.Dim)
	}
	h, q, k, v := whole.forward(p.Context, residual, x)
	return []*autograd.Value{p.after(q), p.after(k), p.after(v), p.after(h)}
}

// preLinear is one of the layers of attention_pre, whose weights never change.
func (p *prober) preLinear(out int) *Linear {
	f := p.site.facts
	if f.Scaling != "" {
		return p.int8Linear(&site{facts: core.Facts{Dim: f.Dim, Out: out, Scaling: f.Scaling, Bias: f.Bias}})
	}
	l := &Linear{Weight: p.next(&Param{Tensor: core.Tensor{DType: f.WeightDType, Shape: core.Shape{out, f.Dim}},
		Frozen: true})}
	if f.Bias {
		l.Bias = p.next(&Param{Tensor: core.Tensor{DType: core.Float32, Shape: core.Shape{out}}, Frozen: true})
	}
	return l
}
