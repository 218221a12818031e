// Package models finds the model for a config.json by its model_type and fills it with
// weights: random ones, or those of a Hugging Face model folder.
//
// A family is one file, which registers a [Family].
package models

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// Model is a model with what its folder says about it.
type Model struct {
	*nn.Decoder
	Config    *hf.Config
	RawConfig []byte        // config.json as it was read
	Quantised string        // the quant_method of what has quantised the files; "" for none
	Adapter   *lora.Adapter // nil without adapters
	variants  map[string]*nn.Variant
	known     map[string]int        // rows in the files of what has one for each token
	stored    map[string]core.DType // dtype of each tensor in the files; empty for random weights
	bnb       *bitsAndBytes         // where bitsandbytes has quantised the files; else nil
	Rounding  *lora.Rounding        // of Merge, where that has quantised weights again, as bitsandbytes would; else nil
	base      int                   // how many of the parameters, the first, are the model's own and not an adapter's
}

// New builds the model that config.json describes, in mem, with weights of zero.
func New(config []byte, mem core.Memory) (*Model, error) {
	if err := unquantised(config); err != nil {
		return nil, err
	}
	return construct(config, nn.NewBuilder(mem))
}

// unquantised refuses a configuration whose weights only files have.
func unquantised(config []byte) error {
	q, err := quantisationOf(config)
	if err == nil && q != nil {
		err = fmt.Errorf("config.json: quantization_config: %w", errQuantised)
	}
	return err
}

// NewWith is New with options. Frozen matrices have the dtype that config.json names as
// that of its files.
func NewWith(config []byte, mem core.Memory, o LoadOptions) (*Model, error) {
	if err := errors.Join(o.LoRA.Validate(), o.Train.Validate(o.LoRA.Enabled()), o.ownModules()); err != nil {
		return nil, err
	}
	if err := unquantised(config); err != nil {
		return nil, err
	}
	var files struct {
		DType string `json:"dtype"`
		Older string `json:"torch_dtype"`
	}
	if err := hf.Decode(config, &files); err != nil {
		return nil, err
	}
	stored, _ := core.ParseDType(cmp.Or(files.DType, files.Older)) // what cannot be stored is float32
	config, err := o.Vocabulary.grow(config)
	if err != nil {
		return nil, err
	}
	b, chosen := o.builder(mem, config, func(string) core.DType { return stored })
	m, err := construct(config, b)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(chosen.check(m), o.Vocabulary.trained(m, o)); err != nil {
		m.Free()
		return nil, err
	}
	return m.adapted(o, "", false, nil)
}

func construct(config []byte, b *nn.Builder) (*Model, error) {
	f, err := route(config)
	if err != nil {
		return nil, err
	}
	d, c, err := f.build(config, b)
	if err != nil {
		return nil, err
	}
	return &Model{Decoder: d, Config: c, RawConfig: config, stored: map[string]core.DType{}, known: map[string]int{}, base: len(d.Params())}, nil
}

// Init fills the weights as transformers initialises a new model: matrices from a normal
// distribution with the configured standard deviation, norms with one, biases with zero.
// Adapters stay as they are, but for magnitudes, which are those of the weights.
func (m *Model) Init(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	std := float32(m.Config.InitStd())
	for _, p := range m.Params()[:m.base] {
		var v []float32
		if p.Tensor.DType == core.Float32 {
			v = p.Tensor.Float32s()
		} else {
			v = make([]float32, p.Tensor.Elems())
		}
		for i := range v {
			switch {
			case len(p.Tensor.Shape) > 1 && !strings.HasSuffix(p.Name, "_bias"):
				v[i] = std * float32(rng.NormFloat64())
			case strings.HasSuffix(p.Name, "bias") || p.AroundZero:
				v[i] = 0
			default:
				v[i] = 1
			}
		}
		if p.Tensor.DType != core.Float32 {
			for _, e := range p.Entries {
				p.Set(e, core.FromFloat32(v[e.Offset:][:e.Shape.Elems()], e.Shape...))
			}
		}
	}
	if m.Adapter != nil {
		m.Adapter.Begin()
	}
}

// Elems returns the number of trainable elements.
func (m *Model) Elems() int {
	n := 0
	for _, p := range m.Trainable() {
		n += p.Tensor.Elems()
	}
	return n
}
