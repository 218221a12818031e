package optim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Args are the parameters of a Decay, by transformers' names (lr_scheduler_kwargs). What is
// not there has transformers' default.
type Args map[string]string

// parameters are the names that each decay takes. Others take none.
var parameters = map[Decay][]string{
	Cosine:            {"num_cycles"},
	CosineRestarts:    {"num_cycles"},
	CosineMinLR:       {"min_lr", "min_lr_rate", "num_cycles"},
	Polynomial:        {"lr_end", "power"},
	InverseSqrt:       {"timescale"},
	WarmupStableDecay: {"num_decay_steps", "num_stable_steps", "min_lr_ratio", "num_cycles", "warmup_type", "decay_type"},
}

// ParseArgs reads name=value pairs with commas between.
func ParseArgs(text string) (Args, error) {
	a := Args{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if name == "" || value == "" {
			return nil, fmt.Errorf("optim: %q is not of the form name=value", pair)
		}
		if _, twice := a[name]; twice {
			return nil, fmt.Errorf("optim: %s is given twice", name)
		}
		a[name] = value
	}
	return a, nil
}

// String is what ParseArgs reads.
func (a Args) String() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		pairs = append(pairs, name+"="+a[name])
	}
	return strings.Join(pairs, ",")
}

// Validate reports every parameter that the decay does not take, is missing, or makes no
// sense.
func (a Args) Validate(d Decay) error {
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("optim: schedule %s: "+format, append([]any{d}, args...)...))
	}
	known := parameters[d]
	for _, name := range slices.Sorted(maps.Keys(a)) {
		value := a[name]
		switch {
		case known == nil:
			fail("%s is no parameter of it: it takes none", name)
		case !slices.Contains(known, name):
			fail("%s is no parameter of it; it takes %s", name, strings.Join(known, ", "))
		case strings.HasSuffix(name, "_type"):
			if kinds := []string{"linear", "cosine", "1-sqrt"}; !slices.Contains(kinds, value) {
				fail("%s is %q; want %s", name, value, strings.Join(kinds, ", "))
			}
		default:
			if n, err := strconv.ParseFloat(value, 64); err != nil || !(n >= 0) || math.IsInf(n, 1) {
				fail("%s is %q; want a number, 0 or more", name, value)
			} else if n > 1 && (name == "min_lr_rate" || name == "min_lr_ratio") {
				fail("%s is %q; want a share of the peak, at most 1", name, value)
			}
		}
	}
	switch {
	case d == WarmupStableDecay && a["num_decay_steps"] == "":
		fail("num_decay_steps is missing: say how many steps the fall at the end takes")
	case d == CosineMinLR && (a["min_lr"] == "") == (a["min_lr_rate"] == ""):
		fail("give it one of min_lr, a learning rate, and min_lr_rate, a share of the peak")
	}
	return errors.Join(errs...)
}

// CheckPeak reports a learning rate that the decay would not come down from.
func (a Args) CheckPeak(d Decay, peak float64) error {
	if end := a.get("lr_end", 1e-7); d == Polynomial && !(end < peak) {
		return fmt.Errorf("optim: lr_end is %g; want less than the learning rate, which is %g", end, peak)
	}
	if low := a.get("min_lr", 0); d == CosineMinLR && low > peak {
		return fmt.Errorf("optim: min_lr is %g; want no more than the learning rate, which is %g", low, peak)
	}
	return nil
}

// get returns a number, or what it is by default. Validate has seen it.
func (a Args) get(name string, otherwise float64) float64 {
	if n, err := strconv.ParseFloat(a[name], 64); err == nil {
		return n
	}
	return otherwise
}
