package nn

import (
	"fmt"

	"github.com/seed98097648/tune/trainer/autograd"
)

// LayerNorms names the norms of a layer, below its path; an empty name is no norm. Those before
// attention and block are of the residual stream, those after of what is added to that:
//
//	h += PostAttention(attention(Attention(h)))
//	h += PostBlock(block(Block(h)))
type LayerNorms struct{ Attention, PostAttention, Block, PostBlock string }

// orLlamas returns Llama's norms for none.
func (n LayerNorms) orLlamas() LayerNorms {
	if n == (LayerNorms{}) {
		return LayerNorms{Attention: "input_layernorm", Block: "post_attention_layernorm"}
	}
	return n
}

// Scales multiply values of a decoder; 0 means 1.
type Scales struct {
	Embedding float64 // what the embedding looks up
	Residual  float64 // what attention and block add to the residual stream
	Logits    float64
}

// scaled records x times a factor of Scales.
func scaled(c *Context, x *autograd.Value, by float64) *autograd.Value {
	if by == 0 || by == 1 {
		return x
	}
	return times(c.G, x, float32(by))
}

func newDecoderLayer(b *Builder, i int, cfg *DecoderConfig) decoderLayer {
	path, site := fmt.Sprintf("model.layers.%d", i), fmt.Sprintf("layers.%d", i)
	norm := func(name string, residual bool) *RMSNorm {
		if name == "" {
			return nil
		}
		return newNorm(b, path+"."+name, site+"."+name, normKind{cfg.Hidden, cfg.Eps, cfg.NormOffset}, residual)
	}
	at := cfg.Attention
	if cfg.Window != nil {
		at.Window = cfg.Window(i)
	}
	if cfg.Rope != nil {
		at.Rope = cfg.Rope(i)
	}
	l := decoderLayer{cfg: cfg, number: i}
	l.pre = newPre(b, site+".self_attn.pre", at, cfg, i == 0, func() (*RMSNorm, *Attention) {
		l.attentionNorm = norm(cfg.Norms.Attention, i > 0) // nothing has been added to the embedding
		l.attention = NewAttention(b, path+".self_attn", site+".self_attn", at)
		return l.attentionNorm, l.attention
	})
	l.postAttentionNorm = norm(cfg.Norms.PostAttention, false)
	l.blockNorm = norm(cfg.Norms.Block, true)
	l.block = cfg.Block(b, i, path+".mlp", site+".mlp")
	l.postBlockNorm = norm(cfg.Norms.PostBlock, false)
	return l
}

// addNorm records a residual and the norm after it: h + x, and the norm of that, or the sum
// itself for no norm. Without x, h stays as it is. For outside, see RMSNorm.ofSum.
func addNorm(c *Context, name string, norm *RMSNorm, h, x *autograd.Value,
	outside bool) (sum, normed *autograd.Value) {
	defer c.G.Enter(name)()
	switch {
	case norm == nil && x == nil:
		return h, h
	case norm == nil:
		h = Add(c.G, h, x)
		return h, h
	case x == nil:
		return h, norm.Forward(c, h)
	}
	return norm.ofSum(c, h, x, outside)
}

// forward records a layer, given the residual stream h and what the layer before leaves to
// be added to it. It returns the stream at its start, and the same two for next, the norm
// after the layer, which may be nil.
func (l decoderLayer) forward(c *Context, h, x *autograd.Value, next *RMSNorm) (before, after, rest *autograd.Value) {
	defer c.enterLayer(l.number)()
	norms := l.cfg.Norms
	leave := c.enterPart(AttentionPart, true)
	before, q, k, v := l.pre.forward(c, h, x)
	y := inPath(c, "self_attn", func() *autograd.Value { return l.attention.rest(c, q, k, v) })
	leave()
	y = scaled(c, normed(c, norms.PostAttention, l.postAttentionNorm, y), l.cfg.Scales.Residual)
	leave = c.enterPart(BlockPart, l.blockNorm != nil)
	h, y = addNorm(c, norms.Block, l.blockNorm, before, y, !c.whole)
	y = inPath(c, "mlp", func() *autograd.Value { return l.block.Forward(c, y) })
	leave()
	y = scaled(c, normed(c, norms.PostBlock, l.postBlockNorm, y), l.cfg.Scales.Residual)
	if c.whole && !next.addsItself() {
		return before, Add(c.G, h, y), nil // so that one value is kept between layers, not two
	}
	return before, h, y
}

// normed records the norm of a block's output before that is added to the residual stream;
// nil for none.
func normed(c *Context, name string, n *RMSNorm, x *autograd.Value) *autograd.Value {
	if n == nil {
		return x
	}
	return inPath(c, name, func() *autograd.Value { return n.Forward(c, x) })
}
