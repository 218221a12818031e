// Package hf reads the config.json of a Hugging Face model folder: the fields that the
// decoder families share, with their defaults, and the rotary embedding's variants.
//
// A value that is not supported is an error that names the field, never a guess.
package hf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/nn"
)

// Config holds the shared fields. A family that adds some embeds this one.
type Config struct {
	ModelType                     string       `json:"model_type"`
	VocabSize                     int          `json:"vocab_size"`
	HiddenSize                    int          `json:"hidden_size"`
	IntermediateSize              int          `json:"intermediate_size"`
	NumHiddenLayers               int          `json:"num_hidden_layers"`
	NumAttentionHeads             int          `json:"num_attention_heads"`
	NumKeyValueHeads              int          `json:"num_key_value_heads"`
	HeadDim                       int          `json:"head_dim"`
	HiddenAct                     string       `json:"hidden_act"`
	MaxPositionEmbeddings         int          `json:"max_position_embeddings"` // longrope lowers it to the original
	OriginalMaxPositionEmbeddings int          `json:"original_max_position_embeddings"`
	RMSNormEps                    *float64     `json:"rms_norm_eps"`
	RopeTheta                     float64      `json:"rope_theta"`
	RopeScaling                   *RopeScaling `json:"rope_scaling"`
	RopeParameters                *RopeScaling `json:"rope_parameters"`
	PartialRotaryFactor           *float64     `json:"partial_rotary_factor"`
	TieWordEmbeddings             bool         `json:"tie_word_embeddings"`
	AttentionBias                 bool         `json:"attention_bias"`
	AttentionDropout              float64      `json:"attention_dropout"`
	MLPBias                       bool         `json:"mlp_bias"`
	PadTokenID                    *int         `json:"pad_token_id"`
	UseSlidingWindow              bool         `json:"use_sliding_window"`
	SlidingWindow                 *int         `json:"sliding_window"`
	MaxWindowLayers               int          `json:"max_window_layers"`
	LayerTypes                    []string     `json:"layer_types"`
	IsCausal                      *bool        `json:"is_causal"`
	UseMRope                      bool         `json:"use_mrope"`
	InitializerRange              *float64     `json:"initializer_range"`
	PretrainingTP                 int          `json:"pretraining_tp"`

	// PerLayerConfig has fields, by the number of a layer, which that layer has otherwise.
	PerLayerConfig map[string]any `json:"per_layer_config"`

	// ExtraLayers is how many layers the files may hold after the last one that are no part
	// of the model, as those that GLM-4.5 predicts several tokens with; set by its family.
	ExtraLayers int `json:"-"`
	// ExtraNames are in the names of tensors that are no part of the model either; set by its family.
	ExtraNames string `json:"-"`
	// Activation is what hidden_act must be; "" means silu. Set by the family.
	Activation string `json:"-"`
	// DefaultTheta is the base of the rotary embedding for files that have none; 0 means 10000. Set by the family.
	DefaultTheta float64 `json:"-"`
	shortRope    bool    // MaxPositionEmbeddings is the original
}

// Shared returns the shared fields of a configuration that embeds them.
func (c *Config) Shared() *Config { return c }

// configError says what is wrong with the file.
func configError(format string, args ...any) error {
	return fmt.Errorf("config.json: "+format, args...)
}

// Decode reads JSON into a configuration; errors name the field and where it is. A field that is null becomes zero, as
// None is in Python, and does not stay what it was, which is the default of a file that leaves it out.
func Decode(data []byte, into any) error {
	var fields, zeros map[string]json.RawMessage
	err := plainjson.Unmarshal(data, into)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	zero, err2 := json.Marshal(reflect.New(reflect.TypeOf(into).Elem()).Interface())
	if err = cmp.Or(err, err2, json.Unmarshal(zero, &zeros)); err != nil {
		return configError("%w", err)
	}
	maps.DeleteFunc(zeros, func(name string, _ json.RawMessage) bool { return string(fields[name]) != "null" })
	if zero, err = json.Marshal(zeros); err == nil {
		err = json.Unmarshal(zero, into)
	}
	return err
}

const (
	// mostHeadDim keeps the rotary table, which is made before any weight is looked at, small.
	mostHeadDim = 1 << 16
	// mostHeads keeps products of sizes far from overflow.
	mostHeads = 1 << 16
	// MostExperts keeps the names of a layer's tensors, which are made before any weight is
	// looked at, few.
	MostExperts = 1 << 12
)

// Complete fills in defaults that follow from other fields and checks every value.
func (c *Config) Complete() error {
	var bad []string
	need := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Sprintf(format, args...))
		}
	}
	positive := func(name string, v int) { need(v > 0, "%s is %d, must be positive", name, v) }
	positive("vocab_size", c.VocabSize)
	positive("hidden_size", c.HiddenSize)
	positive("intermediate_size", c.IntermediateSize)
	positive("num_hidden_layers", c.NumHiddenLayers)
	positive("num_attention_heads", c.NumAttentionHeads)
	if bad != nil {
		return configError("%s", strings.Join(bad, "; "))
	}
	c.NumKeyValueHeads = cmp.Or(c.NumKeyValueHeads, c.NumAttentionHeads)
	c.HeadDim = cmp.Or(c.HeadDim, c.HiddenSize/c.NumAttentionHeads)
	c.MaxPositionEmbeddings = cmp.Or(c.MaxPositionEmbeddings, 2048)
	c.RMSNormEps = cmp.Or(c.RMSNormEps, new(1e-6))
	c.Activation = cmp.Or(c.Activation, "silu")
	if c.HiddenAct == "swish" { // the same function, by another of transformers' names
		c.HiddenAct = "silu"
	}
	c.HiddenAct = cmp.Or(c.HiddenAct, c.Activation)
	positive("head_dim", c.HeadDim)
	need(c.NumAttentionHeads <= mostHeads, "num_attention_heads is %d, at most %d make sense", c.NumAttentionHeads,
		mostHeads)
	need(c.HeadDim <= mostHeadDim, "head_dim is %d, at most %d make sense", c.HeadDim, mostHeadDim)
	need(c.NumKeyValueHeads > 0 && c.NumAttentionHeads%c.NumKeyValueHeads == 0,
		"num_attention_heads (%d) must be a multiple of num_key_value_heads (%d)", c.NumAttentionHeads, c.NumKeyValueHeads)
	need(c.MaxPositionEmbeddings > 0, "max_position_embeddings is %d, must be positive", c.MaxPositionEmbeddings)
	need(*c.RMSNormEps >= 0, "rms_norm_eps is %g, must not be negative", *c.RMSNormEps)
	need(c.HiddenAct == c.Activation, "hidden_act %q is not supported; supported: %s", c.HiddenAct, c.Activation)
	need(c.AttentionDropout == 0, "attention_dropout %g is not supported; supported: 0", c.AttentionDropout)
	need(c.IsCausal == nil || *c.IsCausal, "is_causal false is not supported: every token sees only those before it")
	need(!c.UseMRope, "use_mrope is not supported: positions have one axis")
	need(c.PretrainingTP <= 1, "pretraining_tp %d is not supported; supported: 1", c.PretrainingTP)
	need(len(c.PerLayerConfig) == 0, "per_layer_config is not supported: what a layer has is what all have")
	need(c.PadTokenID == nil || *c.PadTokenID < c.VocabSize && *c.PadTokenID >= -c.VocabSize,
		"pad_token_id is outside the vocabulary")
	if bad != nil {
		return configError("%s", strings.Join(bad, "; "))
	}
	return nil
}

// Padding returns the padding token whose embedding gets no gradient, -1 for none. A
// negative pad_token_id counts from the end of the vocabulary, as in torch.nn.Embedding.
func (c *Config) Padding() int {
	switch {
	case c.PadTokenID == nil:
		return -1
	case *c.PadTokenID < 0:
		return *c.PadTokenID + c.VocabSize
	}
	return *c.PadTokenID
}

// InitStd returns the standard deviation of random weights.
func (c *Config) InitStd() float64 { return orDefault(c.InitializerRange, 0.02) }

// Traits say which of the shared fields a family obeys. One that it does not obey is an
// error where its value asks for something.
type Traits struct {
	MLPBias       bool // mlp_bias
	PartialRotary bool // partial_rotary_factor
	LongRope      bool // rope_scaling is longrope, whatever it is called
	// SwitchedWindow is for families where sliding_window counts only with use_sliding_window.
	SwitchedWindow bool
	Sliding        Sliding
}

// Decoder translates the shared fields; the family adds its own.
func (c *Config) Decoder(t Traits) (nn.DecoderConfig, error) {
	var d nn.DecoderConfig
	if c.MLPBias && !t.MLPBias {
		return d, configError("mlp_bias is not supported by model_type %s", c.ModelType)
	}
	if c.UseSlidingWindow && !t.SwitchedWindow {
		return d, configError("use_sliding_window is not supported by model_type %s", c.ModelType)
	}
	if partial := c.partialRotary(); partial != 1 && !t.PartialRotary {
		return d, configError("partial_rotary_factor %g is not supported by model_type %s; supported: 1", partial,
			c.ModelType)
	}
	rope := c.RopeTable
	if t.LongRope {
		rope = c.longRopeTable
	}
	table, err := rope()
	if err != nil {
		return d, err
	}
	window, err := c.windows(t.Sliding)
	if err != nil {
		return d, err
	}
	return nn.DecoderConfig{
		Vocab: c.VocabSize, Hidden: c.HiddenSize, Layers: c.NumHiddenLayers,
		Eps: *c.RMSNormEps, Tied: c.TieWordEmbeddings, Padding: c.Padding(),
		Attention: nn.AttentionConfig{
			Hidden: c.HiddenSize, Heads: c.NumAttentionHeads, KVHeads: c.NumKeyValueHeads, HeadDim: c.HeadDim,
			Bias: c.AttentionBias, OutBias: c.AttentionBias, Eps: *c.RMSNormEps, Rope: table, Pairing: core.Half,
		},
		Window: window,
		Block: func(b *nn.Builder, _ int, path, site string) nn.Block {
			return nn.NewMLP(b, path, site, c.HiddenSize, c.IntermediateSize, c.MLPBias)
		},
	}, nil
}

// PackedMLP is the Block of a decoder whose layers have gate and up in one matrix.
func (c *Config) PackedMLP(b *nn.Builder, _ int, path, site string) nn.Block {
	return nn.NewPackedMLP(b, path, site, c.HiddenSize, c.IntermediateSize)
}

// CheckExperts checks the sizes of a sparse block, which families name differently.
func CheckExperts(name string, experts, perToken, intermediate int) error {
	switch {
	case experts < 1 || perToken < 1 || perToken > experts:
		return configError("num_experts_per_tok (%d) must be between 1 and %s (%d)", perToken, name, experts)
	case experts > MostExperts:
		return configError("%s is %d, at most %d make sense", name, experts, MostExperts)
	case intermediate < 1:
		return configError("moe_intermediate_size is %d, must be positive", intermediate)
	}
	return nil
}

// RouterLoss holds the fields of families whose routers add a loss, which keeps the load of experts even.
type RouterLoss struct {
	OutputRouterLogits bool    `json:"output_router_logits"`
	RouterAuxLossCoef  float64 `json:"router_aux_loss_coef"`
}

// Balance returns how much that loss weighs in the loss, 0 where it is off.
func (l RouterLoss) Balance() (float64, error) {
	switch {
	case !(l.RouterAuxLossCoef >= 0):
		return 0, configError("router_aux_loss_coef is %g, must not be negative", l.RouterAuxLossCoef)
	case !l.OutputRouterLogits:
		return 0, nil
	}
	return l.RouterAuxLossCoef, nil
}
