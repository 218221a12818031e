package lora

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/nn"
)

// The files of an adapter's folder.
const (
	ConfigFile  = "adapter_config.json"
	WeightsFile = "adapter_model.safetensors"
)

// fields are those of adapter_config.json that mean something here.
type fields struct {
	Base         string   `json:"base_model_name_or_path"`
	Rank         int      `json:"r"`
	Alpha        float64  `json:"lora_alpha"`
	Dropout      float64  `json:"lora_dropout"`
	Targets      names    `json:"target_modules"`
	RSLoRA       bool     `json:"use_rslora"`
	PEFTType     string   `json:"peft_type"`
	TaskType     string   `json:"task_type"`
	Bias         string   `json:"bias"`
	FanInFanOut  bool     `json:"fan_in_fan_out"`
	DoRA         bool     `json:"use_dora"`
	Inference    bool     `json:"inference_mode"`
	InitWeights  any      `json:"init_lora_weights"`
	RankPattern  Pattern  `json:"rank_pattern"`
	AlphaPattern Pattern  `json:"alpha_pattern"`
	Save         []string `json:"modules_to_save"`
	Layers       numbers  `json:"layers_to_transform"`
	Pattern      any      `json:"layers_pattern"` // written with Layers, and checked before it is read
}

// names is a list of names, or a single string, which is AllLinear or a pattern.
type names []string

// UnmarshalJSON implements json.Unmarshaler.
func (n *names) UnmarshalJSON(b []byte) error {
	var one *string
	if json.Unmarshal(b, &one) != nil {
		return json.Unmarshal(b, (*[]string)(n))
	}
	if *n = nil; one != nil {
		*n = names{*one}
	}
	return nil
}

// harmless are fields that change nothing about what an adapter computes, whatever they
// say; those of the struct are checked one by one.
var harmless = []string{"auto_mapping", "base_model_name_or_path", "r", "lora_alpha", "lora_dropout", "target_modules",
	"exclude_modules", "rank_pattern", "alpha_pattern",
	"use_rslora", "use_dora", "peft_type", "modules_to_save", "layers_to_transform",
	"task_type", "bias", "inference_mode", "init_lora_weights", "revision", "peft_version", "megatron_core",
	"loftq_config", "eva_config", "corda_config",
	"qalora_group_size"}

// parse reads an adapter_config.json. What it asks for and is not supported is an error that
// names the field; a field that is not known may be there if it is off: false, null or empty.
// There are no targets where a pattern says which they are, or which they are not; see adapted.
func parse(b []byte) (Config, string, error) {
	var all map[string]json.RawMessage
	if err := plainjson.Unmarshal(b, &all); err != nil {
		return Config{}, "", err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text := compact(all[name])
		switch {
		case slices.Contains(harmless, name), slices.Contains(off, text):
		case name == "layers_pattern" && (text == `"`+numbered+`"` || text == `["`+numbered+`"]`):
		default:
			return Config{}, "", fmt.Errorf("field %s is %s, which is not supported", name, short(text))
		}
	}
	f := fields{Rank: 8, Alpha: 8, Bias: "none", TaskType: causal} // PEFT's defaults
	if err := plainjson.Unmarshal(b, &f); err != nil {
		return Config{}, "", err
	}
	switch {
	case f.PEFTType != "LORA":
		return Config{}, "", fmt.Errorf("field peft_type is %q; LORA is supported", f.PEFTType)
	case f.TaskType != causal:
		return Config{}, "", fmt.Errorf("field task_type is %q; %s is supported", f.TaskType, causal)
	case f.Bias != "none":
		return Config{}, "", fmt.Errorf("field bias is %q; none is supported", f.Bias)
	case !slices.Contains(starts, f.InitWeights):
		return Config{}, "", fmt.Errorf("field init_lora_weights is %v: such an adapter may belong to other weights than "+
			"the model's files have; "+
			"convert it with PEFT (path_initial_model_for_weight_conversion)", f.InitWeights)
	case f.Rank < 1:
		return Config{}, "", fmt.Errorf("field r is %d, must be positive", f.Rank)
	case len(f.Targets) == 0:
		return Config{}, "", errors.New("field target_modules names no module")
	}
	c := Config{Rank: f.Rank, Alpha: f.Alpha, Dropout: f.Dropout, Targets: f.Targets, RSLoRA: f.RSLoRA,
		DoRA: f.DoRA, Layers: f.Layers, Modules: f.Save, Ranks: f.RankPattern, Alphas: f.AlphaPattern}
	one := strings.HasPrefix(compact(all["target_modules"]), `"`)
	excluded, found := all["exclude_modules"]
	if one && f.Targets[0] != AllLinear || found && !slices.Contains(off, compact(excluded)) {
		c.Targets = nil
	}
	return c, f.Base, c.Validate()
}

const causal = "CAUSAL_LM"

// starts are the values of init_lora_weights with which an adapter is for the weights as
// they are. The others, such as pissa, olora and loftq, take something off these first.
var starts = []any{nil, true, false, "gaussian", "orthogonal", "eva"}

// off are the JSON values that turn a field off.
var off = []string{"null", "false", "{}", "[]", `""`, "0"}

// compact returns a JSON value on one line.
func compact(v json.RawMessage) string {
	var line bytes.Buffer
	if json.Compact(&line, v) != nil {
		return string(v)
	}
	return line.String()
}

func short(v string) string {
	const most = 60
	if len(v) > most {
		return v[:most] + "..."
	}
	return v
}

// JSON returns the adapter_config.json.
func (a *Adapter) JSON() ([]byte, error) {
	c := a.config.converted()
	targets := slices.Sorted(slices.Values(c.Targets))
	if c.Targets[0] == AllLinear {
		targets = lastNames(a.targets)
	}
	var pattern any // without it PEFT may take an expert's number for that of its layer
	if len(c.Layers) > 0 {
		pattern = numbered
	}
	b, err := json.MarshalIndent(fields{Base: a.base, Rank: c.Rank, Alpha: c.Alpha, Dropout: c.Dropout, Targets: targets,
		RSLoRA: c.RSLoRA, DoRA: c.DoRA, Save: a.wholeNames(), Layers: c.Layers, Pattern: pattern,
		RankPattern: c.Ranks, AlphaPattern: c.Alphas,
		PEFTType: "LORA", TaskType: causal, Bias: "none", Inference: true, InitWeights: true}, "", "  ")
	return append(b, '\n'), err
}

// Load puts the adapters of a folder on a model. Every tensor of the file must have its
// place, and every adapter its tensors.
func Load(body *nn.Body, dir string) (*Adapter, error) { return load(body, body.Adapt, dir) }

// LoadVariant is Load for those sequences of a cache that are to have the adapters, beside others that have none, or
// those of other folders.
func LoadVariant(body *nn.Body, dir string) (*nn.Variant, error) {
	if c, _, err := readConfig(dir); err == nil && c.DoRA {
		return nil, fmt.Errorf("lora: adapter %s: it has magnitudes (use_dora), which only one adapter of a model can "+
			"have: merge it, or load it alone", dir)
	}
	v := body.Variant()
	if whole, err := Modules(dir); err != nil || len(whole) > 0 {
		if err == nil {
			err = fmt.Errorf("lora: adapter %s has modules_to_save (%s), which all texts of an engine would have: "+
				"merge it into a model of its own", dir, strings.Join(whole, ", "))
		}
		return nil, err
	}
	_, err := load(body, v.Adapt, dir)
	return v, err
}

func load(body *nn.Body, put adapt, dir string) (_ *Adapter, err error) {
	defer inFolder(&err, dir)
	c, base, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	targets, err := c.choose(body.Targets())
	if err != nil {
		return nil, fmt.Errorf("%s: field target_modules: %w%s", ConfigFile, err, madeFor(base))
	}
	f, err := checkpoint.Open(filepath.Join(dir, WeightsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Asked before there is memory for any: r is but a number in a small file.
	each, err := c.each(targets)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ConfigFile, err)
	}
	for i, t := range targets {
		for _, e := range t.Entries(each[i].Rank) {
			if err := check(f, e); err != nil {
				return nil, fmt.Errorf("%s: %w%s", WeightsFile, err, madeFor(base))
			}
		}
	}
	a, err := attach(body, put, c, base, targets)
	if err != nil {
		return nil, err
	}
	return a, a.fill(f)
}

// madeFor says which model an adapter that does not fit is for, if its folder tells.
func madeFor(base string) string {
	if base == "" {
		return ""
	}
	return fmt.Sprintf("; its base_model_name_or_path is %s", base)
}

// inFolder, deferred, says in an error which folder it is of.
func inFolder(err *error, dir string) {
	if *err != nil {
		*err = fmt.Errorf("lora: adapter %s: %w", dir, *err)
	}
}

func readConfig(dir string) (Config, string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, ConfigFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, "", fmt.Errorf("it has no %s; it must be a folder that a run with lora.Config.Rank, or PEFT, has "+
			"saved", ConfigFile)
	}
	if err != nil {
		return Config{}, "", err
	}
	c, base, err := parse(raw)
	if err != nil {
		return Config{}, "", fmt.Errorf("%s: %w", ConfigFile, err)
	}
	if _, err := os.Stat(filepath.Join(dir, WeightsFile)); errors.Is(err, fs.ErrNotExist) {
		return Config{}, "", fmt.Errorf("it has no %s; weights in another format, such as adapter_model.bin, must be "+
			"saved as safetensors first", WeightsFile)
	}
	if c.Targets == nil {
		c.Targets, err = adapted(dir)
	}
	return c, base, err
}

// adapted returns the modules that the file of a folder has adapters of, which are all that PEFT has found by a
// pattern.
func adapted(dir string) (modules []string, err error) {
	f, err := checkpoint.Open(filepath.Join(dir, WeightsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for _, name := range f.Names() {
		if module, is := strings.CutSuffix(strings.TrimPrefix(name, prefix), ".lora_A.weight"); is {
			modules = append(modules, module)
		}
	}
	if modules == nil {
		return nil, fmt.Errorf("%s has no adapters, whose layers target_modules and exclude_modules of %s would name",
			WeightsFile, ConfigFile)
	}
	return modules, nil
}

// Read fills the adapters from a folder that was saved with the same configuration.
func (a *Adapter) Read(dir string) (err error) {
	defer inFolder(&err, dir)
	saved, _, err := readConfig(dir)
	if err != nil {
		return err
	}
	if was, is := saved.Numbers(), a.config.converted().Numbers(); was != is {
		return fmt.Errorf("%s says %s, but the adapter to fill has %s", ConfigFile, was, is)
	}
	f, err := checkpoint.Open(filepath.Join(dir, WeightsFile))
	if err != nil {
		return err
	}
	defer f.Close()
	return a.fill(f)
}

// Numbers names what an adapter computes, but for its targets, which its tensors show.
func (c Config) Numbers() string {
	s := fmt.Sprintf("r %d, lora_alpha %g, lora_dropout %g, use_rslora %v, use_dora %v", c.Rank, c.Alpha, c.Dropout,
		c.RSLoRA, c.DoRA)
	if len(c.Ranks)+len(c.Alphas) > 0 {
		s += fmt.Sprintf(", rank_pattern %v, alpha_pattern %v", c.Ranks, c.Alphas)
	}
	return s
}

// fill takes all tensors of a file over.
func (a *Adapter) fill(f *checkpoint.File) error {
	left := map[string]bool{}
	for _, name := range f.Names() {
		left[name] = true
	}
	fill := a.fillMatrices
	if a.config.Init == PiSSA {
		fill = a.fillConverted
	}
	err := fill(f, left)
	if err == nil {
		err = a.fillWhole(f, left)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", WeightsFile, err)
	}
	if len(left) > 0 {
		extra := slices.Sorted(maps.Keys(left))
		return fmt.Errorf("%d tensors of %s have no place in this model with these target_modules, such as %s", len(extra),
			WeightsFile, strings.Join(extra[:min(len(extra), 3)], ", "))
	}
	return nil
}

// fillMatrices takes over the adapters' own tensors, whose names it removes from left.
func (a *Adapter) fillMatrices(f *checkpoint.File, left map[string]bool) error {
	var room checkpoint.Room
	for _, p := range a.params() {
		for _, e := range p.Entries {
			if err := check(f, e); err != nil {
				return err
			}
			t, err := f.TensorIn(&room, prefix+e.Name)
			if err != nil {
				return err
			}
			if err := checkpoint.CheckFinite(prefix+e.Name, t); err != nil {
				return err
			}
			p.Set(e, t)
			delete(left, prefix+e.Name)
		}
	}
	return nil
}

// check refuses a file without a tensor that fits the entry.
func check(f *checkpoint.File, e nn.Entry) error {
	dtype, shape, ok := f.Lookup(prefix + e.Name)
	switch {
	case !ok:
		return fmt.Errorf("it has no tensor %s, which %s asks for", prefix+e.Name, ConfigFile)
	case !shape.Equal(e.Shape):
		return fmt.Errorf("%s is %v, want %v", prefix+e.Name, shape, e.Shape)
	case dtype != core.Float32 && dtype != core.BFloat16 && dtype != core.Float16:
		return fmt.Errorf("%s is %s; supported: float32, bfloat16, float16", prefix+e.Name, dtype)
	}
	return nil
}
