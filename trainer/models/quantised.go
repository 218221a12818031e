package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// Quantisation is what config.json says of weights in int8, with the field names of the compressed-tensors format.
// Weights have a scale for each row.
type Quantisation struct {
	Method string                       `json:"quant_method"`
	Format string                       `json:"format"`
	Status string                       `json:"quantization_status"`
	Groups map[string]QuantisationGroup `json:"config_groups"`
	Ignore []string                     `json:"ignore"` // layers that stay as they were

	// What others may say besides, and is not done here.
	KVCache    any `json:"kv_cache_scheme,omitempty"`
	Transforms struct {
		Groups map[string]any `json:"config_groups,omitempty"`
	} `json:"transform_config,omitzero"`

	bnb *bitsAndBytes // of another format, which has none of these; nil for none
}

// QuantisationGroup says how layers of some kind are quantised.
type QuantisationGroup struct {
	Targets     []string     `json:"targets"`
	Weights     *QuantisedTo `json:"weights"`
	Activations *QuantisedTo `json:"input_activations"` // nil: they stay what they are
	Outputs     *QuantisedTo `json:"output_activations"`
}

// QuantisedTo says to what numbers are quantised: those that share a scale.
type QuantisedTo struct {
	Bits      int    `json:"num_bits"`
	Type      string `json:"type"`
	Symmetric bool   `json:"symmetric"`
	Strategy  string `json:"strategy"`
	Dynamic   bool   `json:"dynamic"`
}

// The words of the format that tune knows.
const (
	compressedTensors = "compressed-tensors"
	intQuantized      = "int-quantized"
)

// NewQuantisation describes a model whose linear layers, but those of ignore, have int8 weights, and whose activations
// become int8 with the scaling, or stay as they are with none. dynamic are layers that have dynamic scaling in any case.
func NewQuantisation(scaling core.Scaling, dynamic, ignore []string) Quantisation {
	group := func(s core.Scaling, targets ...string) QuantisationGroup {
		g := QuantisationGroup{Targets: targets, Weights: &QuantisedTo{8, "int", true, "channel", false}}
		switch s {
		case core.StaticScaling:
			g.Activations = &QuantisedTo{8, "int", false, "tensor", false}
		case core.DynamicScaling:
			g.Activations = &QuantisedTo{8, "int", true, "token", true}
		}
		return g
	}
	groups := map[string]QuantisationGroup{"group_0": group(scaling, "Linear")}
	if len(dynamic) > 0 {
		groups["group_1"] = group(core.DynamicScaling, dynamic...)
	}
	return Quantisation{Method: compressedTensors, Format: intQuantized, Status: "compressed", Groups: groups, Ignore: ignore}
}

// quantisationOf reads the configuration's, nil for a model without.
func quantisationOf(config []byte) (*Quantisation, error) {
	var c struct {
		Quantisation json.RawMessage `json:"quantization_config"`
		Old          json.RawMessage `json:"compression_config"`
	}
	if err := hf.Decode(config, &c); err != nil {
		return nil, err
	}
	if len(c.Old) > 0 && string(c.Old) != "null" {
		return nil, errors.New("config.json: compression_config is what old versions of compressed-tensors called " +
			"quantization_config: give it that name")
	}
	if len(c.Quantisation) == 0 || string(c.Quantisation) == "null" {
		return nil, nil
	}
	if bnb, err := bitsAndBytesOf(c.Quantisation); bnb != nil || err != nil {
		return &Quantisation{Method: bitsandbytes, bnb: bnb}, err
	}
	q := &Quantisation{}
	if err := json.Unmarshal(c.Quantisation, q); err != nil {
		return nil, fmt.Errorf("config.json: quantization_config: %w%s", err, quantisationRemedy)
	}
	return q, q.check()
}

// quantisationRemedy ends what is said of a configuration that tune does not know.
const quantisationRemedy = "; supported is what tune quantize writes: run it on the model that this one was made from"

// check refuses what tune does not know.
func (q *Quantisation) check() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("config.json: quantization_config: "+format+quantisationRemedy, args...)
	}
	switch {
	case q.Method != compressedTensors:
		return fmt.Errorf("config.json: quantization_config: quant_method %q is not supported; supported: %s, and %s as tune quantize "+
			"writes it: take the model that this one was made from, or convert it to bfloat16", q.Method, bitsandbytes, compressedTensors)
	case q.Format != intQuantized:
		return fail("format is %q, want %q", q.Format, intQuantized)
	case len(q.Groups) == 0:
		return fail("config_groups is empty")
	case q.KVCache != nil:
		return fail("kv_cache_scheme is there")
	case len(q.Transforms.Groups) > 0:
		return fail("transform_config is there")
	}
	plain, scaled := "", "" // groups whose activations stay what they are, and the others
	for _, name := range slices.Sorted(maps.Keys(q.Groups)) {
		g, field := q.Groups[name], "config_groups."+name
		w, a := g.Weights, g.Activations
		switch {
		case w == nil:
			return fail("%s.weights is missing", field)
		case w.Bits != 8 || w.Type != "int" || !w.Symmetric || w.Strategy != "channel" || w.Dynamic:
			return fail("%s.weights is %s, want symmetric int of 8 bits for each channel", field, w)
		case g.Outputs != nil:
			return fail("%s.output_activations is there", field)
		case a != nil && (a.Bits != 8 || a.Type != "int" || a.Dynamic && (!a.Symmetric || a.Strategy != "token") ||
			!a.Dynamic && a.Strategy != "tensor"):
			return fail("%s.input_activations is %s, want int of 8 bits, dynamic for each token or static for each tensor", field, a)
		case a == nil:
			plain = field
		default:
			scaled = field
		}
	}
	if plain != "" && scaled != "" { // no tensor tells which of them a layer is in
		return fail("%s has input_activations and %s has none, want the same of all", scaled, plain)
	}
	return nil
}

// String says what the numbers are.
func (q *QuantisedTo) String() string {
	return fmt.Sprintf("%s of %d bits, symmetric %v, strategy %q, dynamic %v", q.Type, q.Bits, q.Symmetric, q.Strategy, q.Dynamic)
}

// scaling is how activations become int8, "" if they do not. Which of several groups a layer is in, its file says: with
// static scaling there is a scale beside the weight.
func (q *Quantisation) scaling(hasScale bool) core.Scaling {
	static, dynamic := false, false
	for _, g := range q.Groups {
		static = static || g.Activations != nil && !g.Activations.Dynamic
		dynamic = dynamic || g.Activations != nil && g.Activations.Dynamic
	}
	switch {
	case static && (hasScale || !dynamic): // where the file lacks it, that is found later
		return core.StaticScaling
	case dynamic:
		return core.DynamicScaling
	}
	return ""
}

// trains refuses what cannot be done with a quantised model; of bitsandbytes', adapters are trained.
func (q *Quantisation) trains(o LoadOptions) error {
	switch {
	case q.bnb == nil && (!o.Frozen || o.LoRA.Enabled()):
		return errQuantised
	case q.bnb == nil:
		return nil
	case !o.Frozen && !o.LoRA.Enabled():
		return errors.New("its weights are quantised by bitsandbytes, and stay as they are: train adapters, with " +
			"lora.Config.Rank, or the model that this one was made from")
	case o.LoRA.Base() != core.InvalidDType:
		return errors.New("its weights are quantised by bitsandbytes: leave lora.Config.BaseInt8 and lora.Config.BaseNF4 out")
	case o.LoRA.Init != "":
		return fmt.Errorf("its weights are quantised by bitsandbytes, and nothing can be taken off them: leave "+
			"lora.Config.Init out, or take the model that this one was made from, with lora.Config.Base%s", q.bnb.base())
	}
	return nil
}

// errQuantised is why a quantised model is not trained, and takes no adapter.
var errQuantised = errors.New("it is quantised, for generate, serve and eval: train the model that it was made from, or " +
	"merge an adapter into that, and run tune quantize on the result")

// scales has the layers whose files have int8 multiply that.
func (q *Quantisation) scales(b *nn.Builder, stored func(name string) core.DType) {
	if q.bnb != nil { // whose activations stay what they are
		return
	}
	b.Scale(func(path string) core.Scaling {
		if stored(path+".weight") != core.Int8 {
			return ""
		}
		return q.scaling(stored(path+".input_scale") != core.InvalidDType)
	})
}

// fillInt8 fills an entry from int8 of a file and the scales beside it.
func fillInt8(set *checkpoint.Set, p *nn.Param, e nn.Entry, stored core.Tensor) (used string, err error) {
	used = strings.TrimSuffix(e.Name, ".weight") + ".weight_scale"
	scale, err := scalesOf(set, used, e.Shape[:len(e.Shape)-1].Elems())
	if err != nil {
		return used, err
	}
	return used, p.SetInt8(e, stored, scale)
}

// scalesOf reads so many numbers, in whatever shape.
func scalesOf(set *checkpoint.Set, name string, n int) ([]float32, error) {
	t, err := set.Tensor(name)
	if err != nil {
		return nil, err
	}
	if err := checkpoint.CheckFinite(name, t); err != nil {
		return nil, err
	}
	if t.Elems() != n {
		return nil, fmt.Errorf("%s is %v, want %d numbers", name, t.Shape, n)
	}
	v := make([]float32, n)
	switch t.DType {
	case core.Float32, core.BFloat16, core.Float16:
		t.Load(v, 0)
		return v, nil
	}
	return nil, fmt.Errorf("%s is %s, want float32, bfloat16 or float16", name, t.DType)
}

// fillStatic fills what layers with static scaling have of their activations.
func (m *Model) fillStatic(set *checkpoint.Set, used func(name string)) error {
	for _, l := range m.Linears() {
		if l.Scaling() == core.StaticScaling {
			used(l.Path() + ".input_scale")
			used(l.Path() + ".input_zero_point")
		}
	}
	for _, l := range m.Linears() {
		if l.Scaling() != core.StaticScaling {
			continue
		}
		name := l.Path() + ".input_scale"
		scale, err := scalesOf(set, name, 1)
		if err != nil {
			return err
		}
		offset := int32(0)
		name = l.Path() + ".input_zero_point"
		if dtype, _, ok := set.Lookup(name); ok {
			t, err := set.Tensor(name)
			if err != nil {
				return err
			}
			if dtype != core.Int8 || t.Elems() != 1 {
				return fmt.Errorf("%s is %s%v, want one int8", name, dtype, t.Shape)
			}
			offset = int32(t.Int8s()[0])
		}
		if err := l.SetStatic(scale[0], offset); err != nil {
			return err
		}
	}
	return nil
}
