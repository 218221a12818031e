package optim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Kind names an optimizer.
type Kind string

// The optimizers.
const (
	AdamW     Kind = "adamw"
	AdamW8    Kind = "adamw_8bit" // AdamW with moments in 8 bits
	Adafactor Kind = "adafactor"
	Lion      Kind = "lion"
	SGD       Kind = "sgd"
	Muon      Kind = "muon"
)

// Kinds returns the names of all optimizers.
func Kinds() []string {
	return []string{string(AdamW), string(AdamW8), string(Adafactor), string(Lion), string(SGD), string(Muon)}
}

// aliases are what transformers calls these (optim). A paged optimizer is the same one, with its
// state where another memory can take over.
var aliases = map[string]Kind{
	"adamw_torch": AdamW, "adamw_hf": AdamW, "adamw_torch_fused": AdamW, "paged_adamw": AdamW, "paged_adamw_32bit": AdamW,
	"adamw_bnb_8bit": AdamW8, "paged_adamw_8bit": AdamW8,
	"lion_32bit": Lion, "paged_lion_32bit": Lion,
}

// ParseKind reads the name of an optimizer, or transformers' name for it; the error for an unknown one
// lists the known.
func ParseKind(name string) (Kind, error) {
	if slices.Contains(Kinds(), name) {
		return Kind(name), nil
	}
	if k := aliases[name]; k != "" {
		return k, nil
	}
	return "", unknown(name)
}

func unknown(name string) error {
	return fmt.Errorf("optim: unknown optimizer %q; known: %s", name, strings.Join(Kinds(), ", "))
}

// Config says which optimizer it is, and holds its constants.
type Config struct {
	Kind         Kind    // "" for AdamW
	Beta1, Beta2 float64 // in [0, 1): decay of AdamW's first and second moments; Lion's two rates
	Eps          float64 // AdamW: added to the root of the second moment
	WeightDecay  float64 // decoupled and scaled by the learning rate; SGD's is a part of the gradient
	Momentum     float64 // in [0, 1): of SGD and Muon

	ScaleParameter bool   // Adafactor: the learning rate is multiplied by the size of the parameter
	MatchRMS       bool   // Muon: the steps are as large as AdamW's, see muon
	Seed           uint64 // of the rounding of parameters in bfloat16
}

// DefaultConfig returns AdamW with the usual constants, without weight decay.
func DefaultConfig() Config { return Config{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8} }

// DefaultMomentum returns the usual momentum of an optimizer, 0 for one that has none.
func (k Kind) DefaultMomentum() float64 {
	switch k {
	case SGD:
		return 0.9
	case Muon:
		return 0.95
	}
	return 0
}

// HasBetas reports whether the optimizer has AdamW's betas. Muon updates by AdamW what is no matrix.
func (k Kind) HasBetas() bool { return k != SGD && k != Adafactor }

// HasEps reports whether it has AdamW's epsilon.
func (k Kind) HasEps() bool { return k.HasBetas() && k != Lion }

// Validate reports every constant that is out of range, and an optimizer that does not exist; transformers' names are
// for ParseKind.
func (c Config) Validate() error {
	var errs []error
	need := func(ok bool, format string, v float64) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, v))
		}
	}
	if k := string(cmp.Or(c.Kind, AdamW)); !slices.Contains(Kinds(), k) {
		errs = append(errs, unknown(k))
	}
	// Written so that a NaN fails, too.
	need(c.Beta1 >= 0 && c.Beta1 < 1, "beta1 is %v; want 0 <= beta1 < 1", c.Beta1)
	need(c.Beta2 >= 0 && c.Beta2 < 1, "beta2 is %v; want 0 <= beta2 < 1", c.Beta2)
	need(c.Eps > 0 && !math.IsInf(c.Eps, 1), "eps is %v; want a positive number", c.Eps)
	need(c.WeightDecay >= 0 && !math.IsInf(c.WeightDecay, 1), "weight decay is %v; want 0 or more", c.WeightDecay)
	need(c.Momentum >= 0 && c.Momentum < 1, "momentum is %v; want 0 <= momentum < 1", c.Momentum)
	return errors.Join(errs...)
}

// rule returns how the optimizer changes a parameter.
func (c Config) rule() rule {
	switch c.Kind {
	case AdamW8:
		return newAdamW8(c)
	case Adafactor:
		return adafactor{c}
	case Lion:
		return lion{c}
	case SGD:
		return sgd{c}
	case Muon:
		return &muon{Config: c}
	}
	return adamW{c}
}

// Unit returns what the ends of a part of a parameter, but for its own end, must be multiples of for Update to
// change it by itself, in elements; 0 where an element's change depends on all of the gradient.
func (c Config) Unit() int {
	switch c.Kind {
	case AdamW8:
		return block
	case Adafactor, Muon:
		return 0
	}
	return 1
}

// Bytes returns the memory that an optimizer of these parameters takes besides them and their
// gradients. Of a parameter, Name and Shape count.
func (c Config) Bytes(params []Param) int64 {
	r, n := c.rule(), int64(0)
	for i := range params {
		for _, s := range r.keeps(&params[i]) {
			n += int64(s.bytes())
		}
	}
	if m, ok := r.(*muon); ok {
		n += m.scratchBytes(params)
	}
	return n
}
