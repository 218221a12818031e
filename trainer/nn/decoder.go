package nn

import (
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// Block is a feed-forward block: an MLP or a MoE.
type Block interface {
	Forward(c *Context, x *autograd.Value) *autograd.Value
}

// DecoderConfig describes a pre-norm decoder as Llama and Qwen build it: in every layer
// h += attention(norm(h)), then h += block(norm(h)); a last norm; a head that may share
// the embedding's weight.
type DecoderConfig struct {
	Vocab, Hidden, Layers int
	Eps                   float64
	Tied                  bool // the head is the embedding
	Padding               int  // token whose embedding gets no gradient; negative for none
	Attention             AttentionConfig
	// Block builds the feed-forward block of a layer: parameters below path, the site at
	// or below sitePath.
	Block func(b *Builder, layer int, path, sitePath string) Block
}

// Decoder is a causal language model.
type Decoder struct {
	Body
	cfg    DecoderConfig
	embed  *Embedding
	layers []decoderLayer
	norm   *RMSNorm
	head   *Linear
	loss   *site // the head and the loss together
}

type decoderLayer struct {
	attentionNorm, blockNorm *RMSNorm
	attention                *Attention
	block                    Block
}

// NewDecoder builds the model with the tensor names of Hugging Face.
func NewDecoder(b *Builder, cfg DecoderConfig) (*Decoder, error) {
	d := &Decoder{cfg: cfg, embed: NewEmbedding(b, "model.embed_tokens", cfg.Vocab, cfg.Hidden, cfg.Padding)}
	for i := range cfg.Layers {
		if b.Err() != nil {
			break
		}
		path, site := fmt.Sprintf("model.layers.%d", i), fmt.Sprintf("layers.%d", i)
		d.layers = append(d.layers, decoderLayer{
			attentionNorm: NewRMSNorm(b, path+".input_layernorm", site+".input_layernorm", cfg.Hidden, cfg.Eps),
			attention:     NewAttention(b, path+".self_attn", site+".self_attn", cfg.Attention),
			blockNorm:     NewRMSNorm(b, path+".post_attention_layernorm", site+".post_attention_layernorm", cfg.Hidden, cfg.Eps),
			block:         cfg.Block(b, i, path+".mlp", site+".mlp"),
		})
	}
	d.norm = NewRMSNorm(b, "model.norm", "norm", cfg.Hidden, cfg.Eps)
	if cfg.Tied {
		d.head = &Linear{Weight: d.embed.Weight}
	} else { // not NewLinear: a head takes no adapter
		d.head = &Linear{Weight: b.Param("lm_head.weight", cfg.Vocab, cfg.Hidden)}
	}
	d.loss = b.site("loss", core.LinearCrossEntropy, core.Facts{WeightDType: d.head.Weight.Tensor.DType, Dim: cfg.Hidden, Vocab: cfg.Vocab,
		Frozen: d.head.Weight.Frozen})
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
}

// Forward records the model.
func (d *Decoder) Forward(c *Context) *Output {
	var out Output
	c.swaps = d.use.swaps
	h := inPath(c, "embed_tokens", func() *autograd.Value { return d.embed.Forward(c) })
	out.Embedded = h
	for i, l := range d.layers {
		h = inPath(c, fmt.Sprintf("layers.%d", i), func() *autograd.Value { return l.forward(c, h) })
		out.Hidden = append(out.Hidden, h)
	}
	out.Normed = inPath(c, "norm", func() *autograd.Value { return d.norm.Forward(c, h) })
	out.Logits, out.Loss = d.loss.headLoss(c, d.head, out.Normed)
	return &out
}

// forward records a layer: the residual stream before it and after it.
func (l decoderLayer) forward(c *Context, h *autograd.Value) *autograd.Value {
	if c.Checkpoint {
		defer c.G.Checkpoint()()
	}
	c.cheap()
	x := inPath(c, "input_layernorm", func() *autograd.Value { return l.attentionNorm.Forward(c, h) })
	h = Add(c.G, h, inPath(c, "self_attn", func() *autograd.Value { return l.attention.Forward(c, x) }))
	c.cheap()
	x = inPath(c, "post_attention_layernorm", func() *autograd.Value { return l.blockNorm.Forward(c, h) })
	return Add(c.G, h, inPath(c, "mlp", func() *autograd.Value { return l.block.Forward(c, x) }))
}

func inPath(c *Context, name string, f func() *autograd.Value) *autograd.Value {
	defer c.G.Enter(name)()
	return f()
}
