package models

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// Family is all that tune knows of one model_type. Its file registers it, and no other
// place names it: docs/adding-a-family.md shows one being added.
type Family struct {
	Type    string // model_type of config.json
	Models  string // what is published with it
	Differs string // from llama in what, in Markdown
	// Sample has fields of config.json, in JSON, with which a small model has every part
	// of the family; see Small.
	Sample string

	// defaults returns what transformers takes for fields that the file does not have.
	defaults func() familyConfig
}

// familyConfig holds the fields of config.json that a family reads. One that embeds hf.Config
// reads those that all families share.
type familyConfig interface {
	Shared() *hf.Config
	// decoder checks the fields of the family's own and describes the model. The shared
	// ones are complete and checked.
	decoder() (nn.DecoderConfig, error)
}

// families is the router by model_type. It is complete when main begins.
var families = map[string]Family{}

// register enters a family: for func init of the family's file.
func register(f Family) {
	if _, twice := families[f.Type]; twice {
		panic("models: model_type " + f.Type + " is registered twice")
	}
	families[f.Type] = f
}

// Families returns every family, sorted by its type.
func Families() []Family {
	var all []Family
	for _, name := range supported() {
		all = append(all, families[name])
	}
	return all
}

func supported() []string { return slices.Sorted(maps.Keys(families)) }

// Small returns the fields of config.json of a model that trains in no time: two layers,
// and what the family's Sample says. It is for tests, and to try something.
func (f Family) Small() map[string]any {
	c := map[string]any{"model_type": f.Type, "vocab_size": 29, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2,
		"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 64, "initializer_range": 0.3}
	if err := json.Unmarshal([]byte(f.Sample), &c); err != nil {
		panic(fmt.Sprintf("models: the sample of %s: %v", f.Type, err)) // every test of families calls this
	}
	return c
}

// route returns the family of the configuration's model_type.
func route(config []byte) (Family, error) {
	var head struct {
		ModelType string `json:"model_type"`
		Text      struct {
			ModelType string `json:"model_type"`
		} `json:"text_config"`
	}
	if err := hf.Decode(config, &head); err != nil {
		return Family{}, err
	}
	f, ok := families[head.ModelType]
	if head.ModelType == "" {
		return f, fmt.Errorf("config.json: model_type is missing; supported: %s", strings.Join(supported(), ", "))
	}
	if _, text := families[head.Text.ModelType]; text && !ok {
		return f, fmt.Errorf("config.json: model_type %q is not supported; that of its text_config, %q, is: save the text part as a "+
			"model of its own, with transformers", head.ModelType, head.Text.ModelType)
	}
	if !ok {
		return f, fmt.Errorf("config.json: model_type %q is not supported; supported: %s", head.ModelType, strings.Join(supported(), ", "))
	}
	return f, nil
}

// Describe returns the decoder that a config.json describes.
func Describe(config []byte) (nn.DecoderConfig, error) {
	f, err := route(config)
	if err != nil {
		return nn.DecoderConfig{}, err
	}
	d, _, err := f.describe(config)
	return d, err
}

func (f Family) describe(data []byte) (d nn.DecoderConfig, _ *hf.Config, err error) {
	c := f.defaults()
	if err := hf.Decode(data, c); err != nil {
		return d, nil, err
	}
	if err := c.Shared().Complete(); err != nil {
		return d, nil, err
	}
	d, err = c.decoder()
	return d, c.Shared(), err
}

// build makes the decoder that config.json describes.
func (f Family) build(data []byte, b *nn.Builder) (*nn.Decoder, *hf.Config, error) {
	d, c, err := f.describe(data)
	if err != nil {
		return nil, nil, err
	}
	m, err := nn.NewDecoder(b, d)
	return m, c, err
}
