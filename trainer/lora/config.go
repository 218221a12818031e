// Package lora puts low-rank adapters (LoRA) on a model, reads and writes them as PEFT does,
// and merges them into the weights.
//
// A linear layer y = x W^T with an adapter gives y + scale * dropout(x) A^T B^T, where
// A [r, in] starts from random numbers, B [out, r] from zero, and W stays as it is. See Hu
// et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021).
package lora

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/nn"
)

// AllLinear, as a target, stands for every linear layer but the head, the matrices of
// experts included.
const AllLinear = "all-linear"

// Config says what a run makes of adapters. The zero value trains all weights.
type Config struct {
	Rank    int      `json:"lora_rank,omitempty"`    // r; 0 for none, or for that of Adapter
	Alpha   float64  `json:"lora_alpha,omitempty"`   // scale is alpha/r; 0 for twice the rank
	Dropout float64  `json:"lora_dropout,omitempty"` // in [0, 1), while training
	Targets []string `json:"lora_target,omitempty"`  // names of layers, such as q_proj; none for AllLinear
	RSLoRA  bool     `json:"lora_rslora,omitempty"`  // scale is alpha/sqrt(r) (Kalajdzievski, 2023)
	DoRA    bool     `json:"lora_dora,omitempty"`    // adapters are of the weights' directions; see nn.Body.Decompose
	Layers  []int    `json:"lora_layers,omitempty"`  // the layers that get adapters, from 0; none for all
	Init    string   `json:"lora_init,omitempty"`    // what adapters begin with: "" for A random and B zero, or PiSSA

	// Start is, with PiSSA, a folder that a run with this configuration has saved: what it began with comes from there,
	// and so the run goes on to the bit wherever that was computed.
	Start string `json:"-"`

	// Ranks and Alphas are those that modules of an adapter that was read have of their own.
	Ranks  Pattern `json:"-"`
	Alphas Pattern `json:"-"`

	// Modules are what is trained as it is beside the adapters, as nn.Param.Named has it. Whoever loads
	// the model has seen to it that these are trained; see models.Selection.
	Modules []string `json:"-"`

	// PlusRatio is how many times the learning rate B has; 0 for that of A. See Hayou et al.,
	// "LoRA+: Efficient Low Rank Adaptation of Large Models" (2024).
	PlusRatio float64 `json:"loraplus_lr_ratio,omitempty"`

	// the folder of an adapter to start from; the fields above then come from there
	Adapter  string `json:"adapter,omitempty"`
	BaseInt8 bool   `json:"base_int8,omitempty"` // keep the matrices that adapters are for in int8
	BaseNF4  bool   `json:"base_nf4,omitempty"`  // keep them in NF4, half a byte for each element
}

// Base returns what the matrices that adapters are for are kept in, nothing for what the files have.
func (c Config) Base() core.DType {
	switch {
	case c.BaseInt8:
		return core.Int8
	case c.BaseNF4:
		return core.NF4
	}
	return core.InvalidDType
}

// Enabled reports whether there are adapters.
func (c Config) Enabled() bool { return c.Rank > 0 || c.Adapter != "" }

const mostRank = 1 << 16

// Validate reports every field that makes no sense.
func (c Config) Validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(c.Rank >= 0 && c.Rank <= mostRank, "lora.Config.Rank is %d, must be between 0 and %d", c.Rank, mostRank)
	need(c.Alpha >= 0 && c.Alpha <= math.MaxFloat32,
		"lora.Config.Alpha is %g, must not be negative, and finite in float32", c.Alpha)
	need(c.Dropout >= 0 && c.Dropout < 1, "lora.Config.Dropout is %g, must be at least 0 and below 1", c.Dropout)
	for _, t := range c.Targets {
		need(t != "", "lora.Config.Targets has an empty name; give names such as q_proj,v_proj, or %s", AllLinear)
		need(t != AllLinear || len(c.Targets) == 1, "lora.Config.Targets: %s stands alone", AllLinear)
	}
	for _, l := range c.Layers {
		need(l >= 0, "lora.Config.Layers has %d; layers are counted from 0", l)
	}
	need(c.Init == "" || c.Init == PiSSA, "lora.Config.Init is %q; known: %s", c.Init, PiSSA)
	need(c.Init == "" || !c.DoRA, "lora.Config.Init is %s, which an adapter with lora.Config.DoRA cannot be saved with: "+
		"choose one", c.Init)
	settings := c.settings()
	need(c.Adapter == "" || c.Rank == 0 && settings == nil, "lora.Config.Adapter has its rank, alpha, dropout, targets "+
		"and layers in its adapter_config.json: leave these out")
	need(!c.DoRA || c.Dropout == 0, "lora.Config.DoRA multiplies whole rows, and has no dropout beside them: leave "+
		"lora.Config.Dropout out")
	need(c.PlusRatio >= 0 && c.PlusRatio <= math.MaxFloat32,
		"lora.Config.PlusRatio is %g, must not be negative, and finite in float32", c.PlusRatio)
	need(c.Enabled() || c.PlusRatio == 0, "lora.Config.PlusRatio is for LoRA: give lora.Config.Rank or "+
		"lora.Config.Adapter too")
	need(c.Enabled() || c.Rank < 0 || settings == nil, "%s: given without lora.Config.Rank, which turns LoRA on",
		strings.Join(settings, ", "))
	need(c.Enabled() || !c.BaseInt8, "lora.Config.BaseInt8 is for LoRA, which leaves these weights as they are: give "+
		"lora.Config.Rank or lora.Config.Adapter too")
	need(c.Enabled() || !c.BaseNF4, "lora.Config.BaseNF4 is for LoRA, which leaves these weights as they are: give "+
		"lora.Config.Rank or lora.Config.Adapter too")
	need(!c.BaseInt8 || !c.BaseNF4, "lora.Config.BaseInt8 and lora.Config.BaseNF4 are given: choose one")
	errs = append(errs, c.validatePatterns())
	return errors.Join(errs...)
}

// settings are the fields beside the rank that are set.
func (c Config) settings() (names []string) {
	for name, set := range map[string]bool{"Alpha": c.Alpha != 0, "Dropout": c.Dropout != 0,
		"Targets": len(c.Targets) > 0, "RSLoRA": c.RSLoRA, "Layers": len(c.Layers) > 0, "DoRA": c.DoRA,
		"Init": c.Init != ""} {
		if set {
			names = append(names, "lora.Config."+name)
		}
	}
	slices.Sort(names)
	return names
}

// complete fills in what is left to defaults.
func (c Config) complete() Config {
	if c.Alpha == 0 {
		c.Alpha = 2 * float64(c.Rank)
	}
	if len(c.Targets) == 0 {
		c.Targets = []string{AllLinear}
	}
	return c
}

func (c Config) adaptation() nn.Adaptation {
	scale := c.Alpha / float64(c.Rank)
	if c.RSLoRA {
		scale = c.Alpha / math.Sqrt(float64(c.Rank))
	}
	return nn.Adaptation{Rank: c.Rank, Scale: scale, Dropout: c.Dropout}
}

// choose returns the targets that the names mean.
func (c Config) choose(all []nn.Target) ([]nn.Target, error) {
	all, err := c.within(all)
	if err != nil {
		return nil, err
	}
	if c.Targets[0] == AllLinear {
		return all, nil
	}
	used := map[string]bool{} // by each name: PEFT may list thousands, the whole path of every module
	for _, name := range c.Targets {
		used[name] = false
	}
	var chosen []nn.Target
	for _, t := range all {
		n := 0
		for _, module := range t.Modules {
			if matches(module, used) {
				n++
			}
		}
		switch n {
		case 0:
		case len(t.Modules):
			chosen = append(chosen, t)
		default:
			return nil, fmt.Errorf("the targets name %d of the %d experts of %s; name all of them", n, len(t.Modules),
				t.Name)
		}
	}
	for _, name := range c.Targets {
		if !used[name] {
			return nil, fmt.Errorf("no linear layer is called %q; the model has %s (the head takes no adapter)", name,
				strings.Join(lastNames(all), ", "))
		}
	}
	return chosen, nil
}

// matches reports whether a module's path, or what follows one of its dots, is among the
// names, and notes which were.
func matches(module string, used map[string]bool) (found bool) {
	for more := true; more; _, module, more = strings.Cut(module, ".") {
		if _, ok := used[module]; ok {
			used[module], found = true, true
		}
	}
	return found
}
