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

// DecoderConfig describes a decoder as Llama and Qwen build it: layers of attention and a
// feed-forward block with norms around them (see LayerNorms), a last norm, and a head that
// may share the embedding's weight.
type DecoderConfig struct {
	Vocab, Hidden, Layers int
	Eps                   float64
	Tied                  bool // the head is the embedding
	Padding               int  // token whose embedding gets no gradient; negative for none
	// NormOffset is added to the weights of all norms: 1 where they are stored around zero, as Gemma's are.
	NormOffset int
	Norms      LayerNorms // the zero value is Llama's
	Scales     Scales
	LogitCap   float64 // logits are LogitCap*tanh(logit/LogitCap); 0 for none
	Attention  AttentionConfig
	// Window returns the sliding window of a layer's attention, instead of Attention's own;
	// nil if all layers are alike.
	Window func(layer int) int
	// Rope does so for the rotary positions, nil for a layer that has none.
	Rope func(layer int) *RopeTable
	// Block builds the feed-forward block of a layer: parameters below path, the site at
	// or below sitePath.
	Block func(b *Builder, layer int, path, sitePath string) Block
	// Balance is how much the load-balancing loss of the routers weighs in the loss; see
	// Output.Balance.
	Balance float64
}

// Narrowest returns the fewest tokens that a layer's attention sees, as by a sliding window; 0 if every layer sees all.
func (cfg DecoderConfig) Narrowest() (least int) {
	for i := range cfg.Layers {
		window := cfg.Attention.Window
		if cfg.Window != nil {
			window = cfg.Window(i)
		}
		if window > 0 && (least == 0 || window < least) {
			least = window
		}
	}
	return least
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
	cfg                              *DecoderConfig
	number                           int
	attentionNorm, blockNorm         *RMSNorm // nil where Norms has no name for them
	postAttentionNorm, postBlockNorm *RMSNorm
	attention                        *Attention
	pre                              *pre // attentionNorm and all of attention before that
	block                            Block
}

// NewDecoder builds the model with the tensor names of Hugging Face.
func NewDecoder(b *Builder, cfg DecoderConfig) (*Decoder, error) {
	cfg.Norms, cfg.Attention.NormOffset = cfg.Norms.orLlamas(), cfg.NormOffset
	if cfg.Tied {
		b.tied = "lm_head.weight"
	}
	d := &Decoder{cfg: cfg, embed: NewEmbedding(b, "model.embed_tokens", cfg.Vocab, cfg.Hidden, cfg.Padding)}
	for i := range cfg.Layers {
		if b.Err() != nil {
			break
		}
		d.layers = append(d.layers, newDecoderLayer(b, i, &d.cfg))
	}
	d.norm = newNorm(b, "model.norm", "norm", normKind{cfg.Hidden, cfg.Eps, cfg.NormOffset}, true)
	if cfg.Tied {
		d.head = &Linear{Weight: d.embed.Weight}
	} else { // not NewLinear: a head takes no adapter
		d.head = &Linear{Weight: b.Param("lm_head.weight", cfg.Vocab, cfg.Hidden)}
	}
	if w := d.head.Weight; w.Tensor.DType != core.Int8 {
		d.loss = b.site("loss", core.LinearCrossEntropy,
			core.Facts{WeightDType: w.Tensor.DType, Dim: cfg.Hidden, Vocab: cfg.Vocab, Frozen: w.Frozen})
		if cfg.LogitCap > 0 {
			b.stayPlain(d.loss, "its logits are capped, which linear_cross_entropy has not")
		}
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
	c.fail(c.checkParts(len(d.layers)))
	h := inPath(c, "embed_tokens", func() *autograd.Value { return d.objective.noisy(c, d.embed.Forward(c)) })
	h = scaled(c, h, d.cfg.Scales.Embedding)
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
	normed := scaled(c, out.Normed, d.cfg.Scales.Logits)
	out.Logits, out.Loss = d.loss.headLoss(c, d.head, d.cfg.LogitCap, normed, out.Balance, more.Smoothing)
	return &out
}

func inPath(c *Context, name string, f func() *autograd.Value) *autograd.Value {
	defer c.G.Enter(name)()
	return f()
}
