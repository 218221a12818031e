package nn

import (
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// Block is a feed-forward block: an MLP or a MoE. What other blocks record is computed
// again for the backward pass, as the norm before them is; these two say where it would
// cost too much.
type Block interface {
	Forward(c *Context, x *autograd.Value) *autograd.Value
}

// DecoderConfig describes a decoder as Llama and Qwen build it, pre-norm: in every layer
// h += attention(norm(h)), then h += block(norm(h)); a last norm; a head that may share
// the embedding's weight.
type DecoderConfig struct {
	Vocab, Hidden, Layers int
	Eps                   float64
	Tied                  bool // the head is the embedding
	Padding               int  // token whose embedding gets no gradient; negative for none
	// Sandwich puts a norm after attention and block too, as GLM-4-0414 does, before the
	// residual is added: h += norm(attention(norm(h))), then h += norm(block(norm(h))).
	Sandwich  bool
	Attention AttentionConfig
	// Window returns the sliding window of a layer's attention, instead of Attention's own;
	// nil if all layers are alike.
	Window func(layer int) int
	// Block builds the feed-forward block of a layer: parameters below path, the site at
	// or below sitePath.
	Block func(b *Builder, layer int, path, sitePath string) Block
	// Balance is how much the load-balancing loss of the routers weighs in the loss; see
	// Output.Balance.
	Balance float64
}

// Decoder is a causal language model.
type Decoder struct {
	Body
	cfg    DecoderConfig
	embed  *Embedding
	layers []decoderLayer
	norm   *RMSNorm
	head   *Linear
	// what training adds; see SetObjective
	objective Objective
	loss      *site // the head and the loss together; nil where the head is int8, of which there is no such op
}

type decoderLayer struct {
	attentionNorm, blockNorm         *RMSNorm
	postAttentionNorm, postBlockNorm *RMSNorm // nil unless Sandwich
	attention                        *Attention
	pre                              *pre // attentionNorm and all of attention before that
	block                            Block
}

// NewDecoder builds the model with the tensor names of Hugging Face.
func NewDecoder(b *Builder, cfg DecoderConfig) (*Decoder, error) {
	if cfg.Tied {
		b.tied = "lm_head.weight"
	}
	d := &Decoder{cfg: cfg, embed: NewEmbedding(b, "model.embed_tokens", cfg.Vocab, cfg.Hidden, cfg.Padding)}
	for i := range cfg.Layers {
		if b.Err() != nil {
			break
		}
		d.layers = append(d.layers, newDecoderLayer(b, i, cfg))
	}
	d.norm = NewResidualNorm(b, "model.norm", "norm", cfg.Hidden, cfg.Eps)
	if cfg.Tied {
		d.head = &Linear{Weight: d.embed.Weight}
	} else { // not NewLinear: a head takes no adapter
		d.head = &Linear{Weight: b.Param("lm_head.weight", cfg.Vocab, cfg.Hidden)}
	}
	if w := d.head.Weight; w.Tensor.DType != core.Int8 {
		d.loss = b.site("loss", core.LinearCrossEntropy,
			core.Facts{WeightDType: w.Tensor.DType, Dim: cfg.Hidden, Vocab: cfg.Vocab, Frozen: w.Frozen})
	}
	d.head.offer(b, "lm_head")
	if d.loss != nil {
		siteOf(b.sites, d.head.site).Within = d.loss.path
	}
	b.layers = append(b.layers, d.head)
	d.Body = b.Body()
	if err := b.Err(); err != nil {
		d.Free()
		return nil, err
	}
	return d, nil
}

func newDecoderLayer(b *Builder, i int, cfg DecoderConfig) decoderLayer {
	path, site := fmt.Sprintf("model.layers.%d", i), fmt.Sprintf("layers.%d", i)
	norm := func(name string, of func(b *Builder, path, sitePath string, dim int, eps float64) *RMSNorm) *RMSNorm {
		return of(b, path+"."+name, site+"."+name, cfg.Hidden, cfg.Eps)
	}
	first := NewResidualNorm
	if i == 0 { // nothing has been added to the embedding
		first = NewRMSNorm
	}
	if cfg.Window != nil {
		cfg.Attention.Window = cfg.Window(i)
	}
	var l decoderLayer
	l.pre = newPre(b, site+".self_attn.pre", cfg.Attention, cfg.Eps, i == 0, func() (*RMSNorm, *Attention) {
		l.attentionNorm = norm("input_layernorm", first)
		l.attention = NewAttention(b, path+".self_attn", site+".self_attn", cfg.Attention)
		return l.attentionNorm, l.attention
	})
	if cfg.Sandwich {
		l.postAttentionNorm = norm("post_self_attn_layernorm", NewRMSNorm)
	}
	l.blockNorm = norm("post_attention_layernorm", NewResidualNorm)
	l.block = cfg.Block(b, i, path+".mlp", site+".mlp")
	if cfg.Sandwich {
		l.postBlockNorm = norm("post_mlp_layernorm", NewRMSNorm)
	}
	return l
}

// Vocab returns the number of tokens that the model knows.
func (d *Decoder) Vocab() int { return d.cfg.Vocab }

// Output is what a forward pass records.
type Output struct {
	Embedded *autograd.Value   // [T, D]
	Hidden   []*autograd.Value // the residual stream after each layer [T, D]
	Normed   *autograd.Value   // after the last norm [T, D]
	Logits   *autograd.Value   // [T, V]; never computed if nobody keeps it and the loss is fused
	Loss     *autograd.Value   // scalar
	// Balance [1] is the part of the loss that keeps the load of experts even, Switch
	// Transformer's, with the z-loss of routers; nil without either.
	Balance *autograd.Value
}

// Forward records the model.
func (d *Decoder) Forward(c *Context) *Output {
	var out Output
	c.swaps = d.use.swaps
	c.routed = nil
	h := inPath(c, "embed_tokens", func() *autograd.Value { return d.objective.noisy(c, d.embed.Forward(c)) })
	out.Embedded = h
	var x *autograd.Value // what is still to be added to h
	for i, l := range d.layers {
		leave := c.G.Enter(fmt.Sprintf("layers.%d", i))
		var before *autograd.Value
		next := d.norm
		if i+1 < len(d.layers) {
			next = d.layers[i+1].attentionNorm
		}
		before, h, x = l.forward(c, h, x, next)
		leave()
		if i > 0 {
			out.Hidden = append(out.Hidden, before)
		}
	}
	h, out.Normed = addNorm(c, "norm", d.norm, h, x, true)
	out.Hidden = append(out.Hidden, h)
	if c.cache != nil {
		return d.next(c, &out)
	}
	more := d.objective
	if !c.Training {
		more = Objective{}
	}
	out.Balance = balance(c, d.cfg.Balance, more.RouterZ)
	out.Logits, out.Loss = d.loss.headLoss(c, d.head, out.Normed, out.Balance, more.Smoothing)
	return &out
}

// addNorm records a residual and the norm after it: h + x, and the norm of that. Without
// x, h stays as it is. For outside, see RMSNorm.ofSum.
func addNorm(c *Context, name string, norm *RMSNorm, h, x *autograd.Value,
	outside bool) (sum, normed *autograd.Value) {
	defer c.G.Enter(name)()
	if x == nil {
		return h, norm.Forward(c, h)
	}
	return norm.ofSum(c, h, x, outside)
}

// forward records a layer, given the residual stream h and what the layer before leaves to
// be added to it. It returns the stream at its start, and the same two for next, the norm
// after the layer.
func (l decoderLayer) forward(c *Context, h, x *autograd.Value, next *RMSNorm) (before, after, rest *autograd.Value) {
	if c.Checkpoint {
		defer c.G.Checkpoint()()
	}
	defer c.costly() // whatever the block has done
	c.cheap()
	before, q, k, v := l.pre.forward(c, h, x)
	y := inPath(c, "self_attn", func() *autograd.Value { return l.attention.rest(c, q, k, v) })
	y = normed(c, "post_self_attn_layernorm", l.postAttentionNorm, y)
	c.cheap()
	h, y = addNorm(c, "post_attention_layernorm", l.blockNorm, before, y, !c.Checkpoint)
	y = inPath(c, "mlp", func() *autograd.Value { return l.block.Forward(c, y) })
	y = normed(c, "post_mlp_layernorm", l.postBlockNorm, y)
	if c.Checkpoint && !next.addsItself() {
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

func inPath(c *Context, name string, f func() *autograd.Value) *autograd.Value {
	defer c.G.Enter(name)()
	return f()
}
