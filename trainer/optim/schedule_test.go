package optim

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// The goldens are the multipliers of transformers.get_scheduler in float64, of every
// schedule with and without a warm-up, to a few steps past the end.
func TestSchedulesMatchTransformers(t *testing.T) {
	file, err := checkpoint.Open(testdata.Shared(t, "golden", "ops", "schedules.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	var meta struct {
		Variants map[string]struct{ Params map[string]any }
	}
	readJSON(t, testdata.Shared(t, "golden", "ops", "schedules.json"), &meta)
	seen := map[string]bool{}
	for name, v := range meta.Variants {
		t.Run(name, func(t *testing.T) {
			s := Schedule{Decay: Decay(v.Params["name"].(string)), Args: Args{}}
			seen[string(s.Decay)] = true
			for param, value := range v.Params {
				switch param {
				case "name":
				case "learning_rate":
					s.Peak = value.(float64)
				case "num_warmup_steps":
					s.Warmup = int(value.(float64))
				case "num_training_steps":
					s.Steps = int(value.(float64))
				default:
					s.Args[param] = fmt.Sprint(value)
				}
			}
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			want, err := file.Tensor(name + ".f64.multiplier")
			if err != nil {
				t.Fatal(err)
			}
			// Both are float64; sums and quotients may be taken in another order.
			for step, w := range want.Float64s() {
				if got := s.At(step) / s.Peak; !(math.Abs(got-w) <= 1e-15) {
					t.Errorf("step %d: the factor is %v, want %v", step, got, w)
				}
			}
		})
	}
	for _, name := range Decays() {
		if !seen[name] {
			t.Errorf("the goldens have no %s", name)
		}
	}
}

func TestScheduleAtItsCorners(t *testing.T) {
	tests := []struct {
		name string
		s    Schedule
		step int
		want float64
	}{
		{"first step of the warm-up learns nothing", Schedule{Linear, 1, 4, 12, nil}, 0, 0},
		{"last step of the warm-up is below the peak", Schedule{Linear, 1, 4, 12, nil}, 3, 0.75},
		{"first step after it is at the peak", Schedule{Linear, 1, 4, 12, nil}, 4, 1},
		{"linear is half way in the middle", Schedule{Linear, 1, 4, 12, nil}, 8, 0.5},
		{"cosine is half way in the middle", Schedule{Cosine, 1, 4, 12, nil}, 8, 0.5},
		{"a floor lifts the middle", Schedule{CosineMinLR, 2, 4, 12, Args{"min_lr": "1"}}, 8, 1.5},
		{"linear ends one step above the end", Schedule{Linear, 1, 4, 12, nil}, 11, 0.125},
		{"after the end there is nothing", Schedule{Linear, 1, 4, 12, nil}, 100, 0},
		{"constant never rises", Schedule{Constant, 1, 4, 12, nil}, 0, 1},
		{"constant never falls", Schedule{Constant, 1, 4, 12, nil}, 100, 1},
		{"constant with warm-up rises", Schedule{ConstantWithWarmup, 1, 4, 12, nil}, 1, 0.25},
		{"no warm-up starts at the peak", Schedule{Cosine, 1, 0, 12, nil}, 0, 1},
		{"a warm-up may be longer than the run", Schedule{Cosine, 1, 16, 4, nil}, 3, 3. / 16},
		{"the warm-up of warmup_stable_decay starts at its floor",
			Schedule{WarmupStableDecay, 1, 4, 12, Args{"num_decay_steps": "4", "min_lr_ratio": "0.5"}}, 0, 0.5},
		{"and is stable for what is left", Schedule{WarmupStableDecay, 1, 4, 12, Args{"num_decay_steps": "4"}}, 7, 1},
		{"and may fall in a line", Schedule{WarmupStableDecay, 1, 4, 12,
			Args{"num_decay_steps": "4", "decay_type": "linear"}}, 9, 0.75},
		{"or by a root", Schedule{WarmupStableDecay, 1, 4, 12,
			Args{"num_decay_steps": "4", "decay_type": "1-sqrt"}}, 9, 0.5},
		{"as it may rise", Schedule{WarmupStableDecay, 1, 4, 12,
			Args{"num_decay_steps": "4", "warmup_type": "1-sqrt"}}, 3, 0.5},
		{"or in a wave", Schedule{WarmupStableDecay, 1, 3, 12,
			Args{"num_decay_steps": "4", "warmup_type": "cosine", "min_lr_ratio": "0.5"}}, 1, 0.625},
		{"it falls in half a wave by default", Schedule{WarmupStableDecay, 1, 4, 12, Args{"num_decay_steps": "4"}}, 9,
			(1 + math.Sqrt2/2) / 2},
		{"and stays where it ends, whatever the wave", Schedule{WarmupStableDecay, 1, 4, 12,
			Args{"num_decay_steps": "4", "num_cycles": "1"}}, 12, 0},
		{"cosine_with_restarts has one half of a wave by default", Schedule{CosineRestarts, 1, 0, 12, nil}, 9,
			(1 - math.Sqrt2/2) / 2},
		{"a polynomial is a line to almost nothing by default", Schedule{Polynomial, 1, 0, 12, nil}, 6, 0.5 + 1e-7/2},
		{"a peak may be tiny, and a step the only one", Schedule{Linear, 1e-8, 0, 1, nil}, 0, 1e-8},
		{"or there is none", Schedule{Linear, 0, 0, 1, nil}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.s.Validate(); err != nil {
				t.Fatal(err)
			}
			if got := tt.s.At(tt.step); !(math.Abs(got-tt.want) <= 1e-15) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestScheduleValidateNamesEveryFault(t *testing.T) {
	tests := []struct {
		s    Schedule
		want []string
	}{
		{Schedule{Decay: "cubic", Peak: math.NaN(), Warmup: -3, Steps: 0},
			[]string{`"cubic"; it takes cosine, linear, constant`, "learning rate is NaN", "0 steps", "warm-up of -3"}},
		{Schedule{Decay: Linear, Peak: 1, Steps: 1, Args: Args{"power": "2"}}, []string{"schedule linear: power is no " +
			"parameter of it: it takes none"}},
		{Schedule{Decay: Polynomial, Peak: 1e-8, Steps: 1, Args: Args{"power": "two"}},
			[]string{`power is "two"; want a number`, "lr_end is 1e-07; want less than the learning rate"}},
		{Schedule{Decay: InverseSqrt, Peak: math.Inf(1), Steps: 1, Args: Args{"timescale": "inf"}},
			[]string{`timescale is "inf"; want a number`, "learning rate is +Inf"}},
		{Schedule{Decay: Polynomial, Peak: 1, Steps: 1, Args: Args{"num_cycles": "2", "power": "-1", "lr_end": "1"}},
			[]string{"num_cycles is no parameter of it; it takes lr_end, power", `power is "-1"`,
				"lr_end is 1; want less than the learning rate"}},
		{Schedule{Decay: WarmupStableDecay, Peak: 1, Steps: 1, Args: Args{"decay_type": "cubic"}},
			[]string{"num_decay_steps is missing", `decay_type is "cubic"`}},
		{Schedule{Decay: CosineMinLR, Peak: 1, Steps: 1, Args: Args{"min_lr": "2"}},
			[]string{"min_lr is 2; want no more than the learning rate, which is 1"}},
		{Schedule{Decay: CosineMinLR, Peak: 1, Steps: 1, Args: Args{"min_lr_rate": "1.5"}}, []string{"at most 1"}},
		{Schedule{Decay: WarmupStableDecay, Peak: 1, Steps: 1, Args: Args{"num_decay_steps": "1", "min_lr_ratio": "2"}},
			[]string{`min_lr_ratio is "2"; want a share of the peak, at most 1`}},
		{Schedule{Decay: CosineMinLR, Peak: 1, Steps: 1}, []string{"one of min_lr, a learning rate, and min_lr_rate"}},
	}
	for _, tt := range tests {
		err := tt.s.Validate()
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: error %v lacks %q", tt.s, err, want)
			}
		}
	}
}

func TestArgsAreReadAsTheyAreWritten(t *testing.T) {
	a, err := ParseArgs(" power=2,, lr_end=1e-7, ")
	if err != nil || a.String() != "lr_end=1e-7,power=2" {
		t.Errorf("got %q, %v", a, err)
	}
	for _, text := range []string{"power", "power=", "=2", "a=1,a=2"} {
		if a, err := ParseArgs(text); err == nil {
			t.Errorf("%q is read as %q", text, a)
		}
	}
}

func ExampleSchedule() {
	s := Schedule{Decay: Cosine, Peak: 1e-3, Warmup: 2, Steps: 6}
	for t := range s.Steps {
		fmt.Printf("%.2e ", s.At(t))
	}
	// Output: 0.00e+00 5.00e-04 1.00e-03 8.54e-04 5.00e-04 1.46e-04
}
