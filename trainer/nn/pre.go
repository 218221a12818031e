package nn

import (
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// pre is all of a layer before its attention: the sum with the residual, the norm, q, k and v, their norms of heads,
// and rope. Its site offers attention_pre, which is for inference.
type pre struct {
	norm      *RMSNorm
	name      string // of the norm
	attention *Attention
	*site     // nil where there is no such op; see fitsPre
}

// newPre adds the site, before those of what build adds, and tells it what they are. The norm is that of a sum
// unless the layer is the first.
func newPre(b *Builder, path string, cfg AttentionConfig, d *DecoderConfig, first bool,
	build func() (*RMSNorm, *Attention)) *pre {
	if !fitsPre(cfg, d) {
		norm, attention := build()
		return &pre{norm: norm, name: d.Norms.Attention, attention: attention}
	}
	facts := core.Facts{Dim: cfg.Hidden, Eps: d.Eps, Offset: d.NormOffset, Cast: core.CastBeforeWeight, Residual: !first, QKNorm: cfg.QKNorm,
		Bias: cfg.Bias, Pairing: cfg.Pairing, RotaryDim: 2 * len(cfg.Rope.InvFreq), HeadDim: cfg.HeadDim,
		Heads: cfg.Heads, KVHeads: cfg.KVHeads}
	if d.NormOffset != 0 {
		facts.Cast = core.CastAfterWeight
	}
	p := &pre{name: d.Norms.Attention, site: b.site(path, core.AttentionPre, facts)}
	p.inference, p.plain = true, p.unfit
	p.norm, p.attention = build()
	p.describe(b)
	for _, s := range []*site{p.norm.largest(), p.attention.qkv, p.attention.qNorm.own(), p.attention.kNorm.own(),
		p.attention.rope.site} {
		if s != nil {
			siteOf(b.sites, s).Within = path
		}
	}
	return p
}

// fitsPre reports whether attention_pre is what comes before attention: a norm, q, k and v by layers of their own, norms
// of each of their heads with the same epsilon if any, and rope.
func fitsPre(cfg AttentionConfig, d *DecoderConfig) bool {
	return d.Norms.Attention != "" && cfg.Latent == nil && !cfg.Packed && !cfg.QKNormAll && cfg.Rope != nil && (!cfg.QKNorm || cfg.Eps == d.Eps)
}

// largest returns the site of the sum and the norm, or that of the norm alone.
func (n *RMSNorm) largest() *site {
	if n.sum != nil {
		return n.sum
	}
	return n.site
}

// own returns the norm's site, nil for no norm.
func (n *RMSNorm) own() *site {
	if n == nil {
		return nil
	}
	return n.site
}

// describe gives the site the facts that the weights have.
func (p *pre) describe(b *Builder) {
	layers := p.attention.in
	f := &p.site.facts
	f.WeightDType, f.Scaling = layers[0].Weight.Tensor.DType, layers[0].Scaling()
	if f.Scaling == core.StaticScaling {
		f.Bias = false // it is a part of the quantised one
	}
	siteOf(b.sites, p.site).Facts = *f
	if f.WeightDType == core.NF4 {
		b.stayPlain(p.site, "its weights are nf4, which attention_pre has not")
	}
	for _, l := range layers {
		if l.Weight.Tensor.DType != f.WeightDType || l.Scaling() != f.Scaling {
			b.stayPlain(p.site, "its layers multiply in several ways")
		}
	}
}

// unfit says why no kernel can take the site with what was read into its layers, "" if one may.
func (p *pre) unfit() string {
	if p.facts.Scaling == core.StaticScaling {
		first := p.attention.in[0].int8
		for _, l := range p.attention.in {
			if l.int8.inputScale.Float32s()[0] != first.inputScale.Float32s()[0] ||
				l.int8.inputOffset.Int32s()[0] != first.inputOffset.Int32s()[0] {
				return "its layers have several scales of activations"
			}
		}
	}
	return ""
}

// forward records h + x, its norm, and q [T, H, C], k and v [T, KV, C] of that; x may be nil, where h stays as it is.
func (p *pre) forward(c *Context, h, x *autograd.Value) (sum, q, k, v *autograd.Value) {
	if !p.site.patched() || p.facts.Residual != (x != nil) {
		sum, y := addNorm(c, p.name, p.norm, h, x, true)
		defer c.G.Enter("self_attn")()
		q, k, v = p.attention.project(c, y)
		return sum, q, k, v
	}
	defer c.G.Enter("self_attn")()
	cos, sin := p.attention.rope.Table.leaves(c)
	in := []*autograd.Value{h}
	if x != nil {
		in = []*autograd.Value{x, h}
	}
	in = append(append(in, c.Leaf(p.norm.Weight)), p.layers(c)...)
	if p.facts.QKNorm {
		in = append(in, c.Leaf(p.attention.qNorm.Weight), c.Leaf(p.attention.kNorm.Weight))
	}
	out := p.fused(c, c.T(), append(in, cos, sin, c.pos)...)
	c.costly()
	if len(out) < 3 { // after an error, which the context has
		return h, h, h, h
	}
	if x != nil {
		h = out[3]
	}
	return h, out[0], out[1], out[2]
}

// layers are what the three layers have.
func (p *pre) layers(c *Context) []*autograd.Value {
	layers := p.attention.in
	if p.facts.Scaling != core.StaticScaling {
		return operands(c, layers, nil)[1:]
	}
	first := layers[0]
	in := first.static(c)[:2:2]
	for _, l := range layers {
		in = append(append(in, c.Leaf(l.Weight)), l.static(c)[2:]...)
	}
	return in
}

// ForInference returns the model as a plan for inference is to see it: with the sites of ops that have no backward
// pass around those that training has.
func (b *Body) ForInference() core.Model { return inferenceModel{b} }

type inferenceModel struct{ *Body }

// Sites implements core.Model.
func (m inferenceModel) Sites() []core.Site {
	sites := slices.Clone(m.sites)
	for i, s := range sites {
		if own := s.Hook.(*site); own.plain != nil && s.Plain == "" {
			sites[i].Plain = own.plain()
		}
	}
	return sites
}

// trainingSites are those of ops with a backward pass, and of layers in int8.
func trainingSites(all []core.Site) []core.Site {
	hidden := map[string]bool{}
	var sites []core.Site
	for _, s := range all {
		if hidden[s.Path] = s.Hook.(*site).inference; hidden[s.Path] {
			continue
		}
		if hidden[s.Within] {
			s.Within = ""
		}
		sites = append(sites, s)
	}
	return sites
}
