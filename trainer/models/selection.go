package models

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/nn"
)

// Selection says which of a model's parameters are trained. The zero value is for all of them, or
// for none but adapters. What is not trained has no gradient and no moments, and stays in the dtype
// of the files.
type Selection struct {
	// Freeze are patterns of what is not trained, as nn.Param.Named has them.
	Freeze []string `json:"freeze,omitempty"`
	// Layers, above 0, trains so many of the last layers alone; below, so many of the first.
	Layers int `json:"train_layers,omitempty"`
	// Modules are patterns of what is trained as it is, beside adapters or Layers; or alone.
	Modules []string `json:"train_modules,omitempty"`
}

// Validate reports every field that makes no sense; adapts says whether there are adapters.
func (s Selection) Validate(adapts bool) error {
	var errs []error
	check := func(field string, patterns []string) {
		for _, p := range patterns {
			if _, err := path.Match(p, ""); err != nil || p == "" {
				errs = append(errs, fmt.Errorf("models.Selection.%s has %q, which is no pattern; name modules, such as "+
					"embed_tokens or layers.[0-3]", field, p))
			}
		}
	}
	check("Freeze", s.Freeze)
	check("Modules", s.Modules)
	if adapts && (len(s.Freeze) > 0 || s.Layers != 0) {
		errs = append(errs, errors.New("models.Selection.Freeze and models.Selection.Layers are for training without "+
			"adapters, beside which all weights are frozen: leave them out; lora.Config.Layers says which layers have adapters"))
	}
	return errors.Join(errs...)
}

// all reports whether everything is trained.
func (s Selection) all() bool { return len(s.Freeze) == 0 && s.Layers == 0 && len(s.Modules) == 0 }

// chooser decides for each parameter of a model of so many layers, and remembers what was named.
type chooser struct {
	Selection
	adapts bool
	layers int
	named  map[string]bool // the patterns that have named something
	err    error
}

// trains reports whether a parameter is trained.
func (c *chooser) trains(p *nn.Param) bool {
	frozen, module := c.names(c.Freeze, p), c.names(c.Modules, p)
	switch {
	case module:
		return !frozen
	case c.adapts || len(c.Modules) > 0 && c.Layers == 0:
		return false
	}
	return !frozen && (c.Layers == 0 || c.within(p))
}

// names reports whether one of the patterns names the parameter.
func (c *chooser) names(patterns []string, p *nn.Param) (yes bool) {
	for _, pattern := range patterns {
		n := p.Named(pattern)
		if n > 0 && n < len(p.Entries) && c.err == nil {
			c.err = fmt.Errorf("%s names %d of the %d tensors that %s is made of; name all of them", pattern, n,
				len(p.Entries), p.Name)
		}
		c.named[pattern] = c.named[pattern] || n > 0
		yes = yes || n > 0
	}
	return yes
}

// within reports whether a parameter is of the layers that are trained.
func (c *chooser) within(p *nn.Param) bool {
	i, ok := layerOf(p.Name)
	if c.Layers < 0 {
		return ok && i < -c.Layers
	}
	return ok && i >= c.layers-c.Layers
}

// check reports what was asked for and is not there.
func (c *chooser) check(m *Model) error {
	if c.err != nil {
		return c.err
	}
	for _, pattern := range slices.Concat(c.Freeze, c.Modules) {
		if !c.named[pattern] {
			return fmt.Errorf("no parameter is called %q; the model has such as %s", pattern, someNames(m))
		}
	}
	if n := m.Config.NumHiddenLayers; c.Layers > n || c.Layers < -n {
		return fmt.Errorf("models.Selection.Layers is %d, but the model has %d layers", c.Layers, n)
	}
	if len(m.Trainable()) == 0 && !c.adapts && !c.all() {
		return errors.New("models.Selection.Freeze or models.Selection.Layers leaves nothing to train: leave it out, or " +
			"have it name less")
	}
	return nil
}

// someNames lists the modules of a model's first layer, and those outside of layers.
func someNames(m *Model) string {
	var names []string
	for _, p := range m.Params() {
		if name := strings.TrimPrefix(p.Name, "model."); !strings.HasPrefix(name, "layers.") ||
			strings.HasPrefix(name, "layers.0.") {
			names = append(names, strings.TrimSuffix(name, ".weight"))
		}
	}
	return strings.Join(names[:min(len(names), 12)], ", ")
}

// freeze makes a builder freeze what is not trained, if that is anything. Of a model that is only
// to write, what was trained as it is has the dtype that it was saved in.
func (o LoadOptions) freeze(b *nn.Builder, layers int, stored func(name string) core.DType) *chooser {
	c := &chooser{Selection: o.Train, adapts: o.LoRA.Enabled(), layers: layers, named: map[string]bool{}}
	if !o.Frozen && !c.adapts && o.Train.all() {
		return c
	}
	b.Freeze(func(p *nn.Param) core.DType {
		trained := c.trains(p)
		switch {
		case trained && o.Frozen && len(o.Train.Modules) > 0:
			return core.Float32
		case trained && !o.Frozen:
			return core.InvalidDType
		}
		return frozenDType(p, stored, o.LoRA.Base())
	})
	return c
}
