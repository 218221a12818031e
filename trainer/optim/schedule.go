package optim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Decay names how the learning rate falls after the warm-up.
type Decay string

// The decays, as in transformers' get_*_schedule_with_warmup.
const (
	Constant Decay = "constant" // stays at the peak
	Linear   Decay = "linear"   // a straight line
	Cosine   Decay = "cosine"   // half a wave
)

// ParseDecay reads the name of a decay; the error for an unknown one lists the known.
func ParseDecay(name string) (Decay, error) {
	known := []Decay{Constant, Linear, Cosine}
	if slices.Contains(known, Decay(name)) {
		return Decay(name), nil
	}
	var names []string
	for _, d := range known {
		names = append(names, string(d))
	}
	return "", fmt.Errorf("optim: unknown schedule %q; known: %s", name, strings.Join(names, ", "))
}

// Schedule gives the learning rate of each step of a run: a linear warm-up to Peak,
// then a Decay that would reach Floor*Peak one step after the last.
type Schedule struct {
	Decay  Decay
	Peak   float64 // the learning rate after the warm-up
	Warmup int     // steps of the warm-up, may be 0
	Steps  int     // steps of the run, the warm-up included
	Floor  float64 // least learning rate as a fraction of Peak (min_lr_ratio); a constant schedule ignores it
}

// Validate reports every field that is out of range.
func (s Schedule) Validate() error {
	var errs []error
	if _, err := ParseDecay(string(s.Decay)); err != nil {
		errs = append(errs, err)
	}
	if !(s.Peak >= 0) || math.IsInf(s.Peak, 1) {
		errs = append(errs, fmt.Errorf("optim: learning rate is %v; want 0 or more", s.Peak))
	}
	if s.Steps < 1 {
		errs = append(errs, fmt.Errorf("optim: schedule of %d steps; want at least 1", s.Steps))
	}
	if s.Warmup < 0 || s.Warmup > max(s.Steps, 0) {
		errs = append(errs, fmt.Errorf("optim: warm-up of %d steps in a run of %d; want 0 to %d", s.Warmup, s.Steps, max(s.Steps, 0)))
	}
	if !(s.Floor >= 0 && s.Floor <= 1) {
		errs = append(errs, fmt.Errorf("optim: least learning rate is %v of the peak; want 0 to 1", s.Floor))
	}
	return errors.Join(errs...)
}

// At returns the learning rate of step t, counted from 0. The warm-up is
// Peak*(t+1)/Warmup: its first step already learns, and its last is at the peak.
// Steps after the end keep the floor.
func (s Schedule) At(t int) float64 {
	if t < s.Warmup {
		return s.Peak * float64(t+1) / float64(s.Warmup)
	}
	progress := 1.0
	if t < s.Steps {
		progress = float64(t-s.Warmup) / float64(s.Steps-s.Warmup)
	}
	height := 1.0 // between the floor, 0, and the peak, 1
	switch s.Decay {
	case Linear:
		height = 1 - progress
	case Cosine:
		height = (1 + math.Cos(math.Pi*progress)) / 2
	}
	return s.Peak * (s.Floor + float64((1-s.Floor)*height))
}
