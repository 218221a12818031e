package optim

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/seed98097648/tune/internal/nearest"
)

// Decay names how the learning rate moves over a run, by transformers' names
// (lr_scheduler_type).
type Decay string

// The decays of transformers' get_scheduler. All but Constant begin with a linear warm-up.
const (
	Constant           Decay = "constant" // the peak from the first step on: a warm-up is ignored
	ConstantWithWarmup Decay = "constant_with_warmup"
	Linear             Decay = "linear"               // a straight line to 0
	Cosine             Decay = "cosine"               // half a wave, or num_cycles waves
	CosineRestarts     Decay = "cosine_with_restarts" // num_cycles times half a wave
	CosineMinLR        Decay = "cosine_with_min_lr"   // to min_lr, or min_lr_rate of the peak
	Polynomial         Decay = "polynomial"           // to lr_end, by power
	InverseSqrt        Decay = "inverse_sqrt"         // with the root of the steps
	WarmupStableDecay  Decay = "warmup_stable_decay"  // the peak for num_stable_steps, then a fall of num_decay_steps
)

// Decays returns the names of all decays.
func Decays() []string {
	return []string{string(Cosine), string(Linear), string(Constant), string(ConstantWithWarmup), string(CosineRestarts),
		string(CosineMinLR), string(Polynomial), string(InverseSqrt), string(WarmupStableDecay)}
}

// Schedule gives the learning rate of each step of a run, as transformers does: the first
// step has the factor of step 0, which is 0 where there is a warm-up, and the end of the
// decay would be reached one step after the last.
type Schedule struct {
	Decay  Decay
	Peak   float64 // the learning rate after the warm-up
	Warmup int     // steps of the warm-up, may be 0, or more than the run has
	Steps  int     // steps of the run, the warm-up included
	Args   Args    // of the decay
}

// Validate reports every field that is out of range.
func (s Schedule) Validate() error {
	var errs []error
	if err := nearest.OneOf("optim.Schedule.Decay", string(s.Decay), Decays()...); err != nil {
		errs = append(errs, err)
	} else {
		errs = append(errs, s.Args.Validate(s.Decay))
	}
	if !(s.Peak >= 0) || math.IsInf(s.Peak, 1) {
		errs = append(errs, fmt.Errorf("optim: learning rate is %v; want 0 or more", s.Peak))
	}
	if s.Steps < 1 {
		errs = append(errs, fmt.Errorf("optim: schedule of %d steps; want at least 1", s.Steps))
	}
	if s.Warmup < 0 {
		errs = append(errs, fmt.Errorf("optim: warm-up of %d steps; want 0 or more", s.Warmup))
	}
	return errors.Join(append(errs, s.Args.CheckPeak(s.Decay, s.Peak))...)
}

// At returns the learning rate of step t, counted from 0.
func (s Schedule) At(t int) float64 { return s.Peak * s.factor(t) }

// factor is the multiplier of the peak. The formulas are those of the functions
// _get_*_lambda in transformers' optimization.py.
func (s Schedule) factor(t int) float64 {
	if s.Decay == Constant {
		return 1
	}
	if t < s.Warmup {
		return s.rise(float64(t) / float64(s.Warmup))
	}
	after, rest := float64(t-s.Warmup), float64(max(1, s.Steps-s.Warmup))
	progress := after / rest
	switch s.Decay {
	case Linear:
		return max(0, 1-progress)
	case Cosine:
		return wave(s.Args.get("num_cycles", 0.5), progress)
	case CosineMinLR:
		return lift(wave(s.Args.get("num_cycles", 0.5), progress), s.Args.get("min_lr_rate", s.Args.get("min_lr", 0)/s.Peak))
	case CosineRestarts:
		if progress >= 1 {
			return 0
		}
		_, part := math.Modf(s.Args.get("num_cycles", 1) * progress)
		return wave(0.5, part)
	case Polynomial:
		end := s.Args.get("lr_end", 1e-7) / s.Peak
		if t > s.Steps {
			return end
		}
		return float64((1-end)*math.Pow(1-progress, s.Args.get("power", 1))) + end
	case InverseSqrt:
		scale := cmp.Or(s.Args.get("timescale", float64(s.Warmup)), 10_000)
		return 1 / math.Sqrt((after+scale)/scale)
	case WarmupStableDecay:
		return s.fall(after)
	}
	return 1
}

// wave is a cosine from 1 to 0 and back, so many times.
func wave(cycles, progress float64) float64 {
	return max(0, (1+math.Cos(math.Pi*cycles*2*progress))/2)
}

// lift moves what lies between 0 and 1 to between low and 1.
func lift(x, low float64) float64 { return float64(x*(1-low)) + low }

// rise is the warm-up, a straight line unless warmup_type says otherwise.
func (s Schedule) rise(progress float64) float64 {
	low := s.Args.get("min_lr_ratio", 0)
	switch s.Args["warmup_type"] {
	case "cosine":
		return lift((1-math.Cos(math.Pi*progress))/2, low)
	case "1-sqrt":
		return lift(1-math.Sqrt(1-progress), low)
	}
	return lift(progress, low)
}

// fall is warmup_stable_decay so many steps after the warm-up.
func (s Schedule) fall(after float64) float64 {
	low, steps := s.Args.get("min_lr_ratio", 0), s.Args.get("num_decay_steps", 0)
	stable := s.Args.get("num_stable_steps", float64(s.Steps-s.Warmup)-steps)
	switch {
	case after < stable:
		return 1
	case after >= stable+steps:
		return low
	}
	progress := (after - stable) / max(1, steps)
	switch s.Args["decay_type"] {
	case "linear":
		return lift(1-progress, low)
	case "1-sqrt":
		return lift(1-math.Sqrt(progress), low)
	}
	return lift(wave(s.Args.get("num_cycles", 0.5), progress), low)
}
