package optim

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

// Every learning curve of the golden models gives the learning rate of each step.
func TestScheduleMatchesTheGoldenCurves(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata.Shared(t, "golden", "models"), "*", "curve.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found no curves: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			var curve struct {
				Schedule string
				LR       []float64
			}
			readJSON(t, file, &curve)
			s := Schedule{Decay: Constant, Peak: curve.LR[0], Steps: len(curve.LR)}
			switch curve.Schedule {
			case "constant":
			case "warmup5_cosine10pct":
				s = Schedule{Decay: Cosine, Peak: curve.LR[4], Warmup: 5, Steps: len(curve.LR), Floor: 0.1}
			default:
				t.Fatalf("the test does not know the schedule %q", curve.Schedule)
			}
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			for step, want := range curve.LR {
				if got := s.At(step); math.Abs(got-want) > 1e-15 {
					t.Errorf("step %d: %v, want %v", step, got, want)
				}
			}
		})
	}
}

func TestScheduleAtItsCorners(t *testing.T) {
	tests := []struct {
		name string
		s    Schedule
		step int
		want float64
	}{
		{"first step of the warm-up learns", Schedule{Linear, 1, 4, 12, 0}, 0, 0.25},
		{"last step of the warm-up is at the peak", Schedule{Linear, 1, 4, 12, 0}, 3, 1},
		{"first step after it, too", Schedule{Linear, 1, 4, 12, 0}, 4, 1},
		{"linear is half way in the middle", Schedule{Linear, 1, 4, 12, 0}, 8, 0.5},
		{"cosine is half way in the middle", Schedule{Cosine, 1, 4, 12, 0}, 8, 0.5},
		{"the floor lifts the middle", Schedule{Linear, 1, 4, 12, 0.5}, 8, 0.75},
		{"linear ends one step above the floor", Schedule{Linear, 1, 4, 12, 0}, 11, 0.125},
		{"after the end the floor stays", Schedule{Cosine, 1, 4, 12, 0.25}, 100, 0.25},
		{"constant never falls", Schedule{Constant, 1, 4, 12, 0}, 100, 1},
		{"no warm-up starts at the peak", Schedule{Cosine, 1, 0, 12, 0}, 0, 1},
		{"all steps may be warm-up", Schedule{Cosine, 1, 4, 4, 0.5}, 4, 0.5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.s.Validate(); err != nil {
				t.Fatal(err)
			}
			if got := tt.s.At(tt.step); math.Abs(got-tt.want) > 1e-15 {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestScheduleValidateNamesEveryFault(t *testing.T) {
	err := Schedule{Decay: "cubic", Peak: math.NaN(), Warmup: 3, Steps: 0, Floor: 2}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`"cubic"; known: constant, linear, cosine`, "learning rate is NaN", "0 steps", "warm-up of 3", "2 of the peak"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
}

func TestParseDecayKnowsItsNames(t *testing.T) {
	for _, d := range []Decay{Constant, Linear, Cosine} {
		if got, err := ParseDecay(string(d)); got != d || err != nil {
			t.Errorf("ParseDecay(%q) = %q, %v", d, got, err)
		}
	}
}

func ExampleSchedule() {
	s := Schedule{Decay: Cosine, Peak: 1e-3, Warmup: 2, Steps: 6, Floor: 0.1}
	for t := range s.Steps {
		fmt.Printf("%.2e ", s.At(t))
	}
	// Output: 5.00e-04 1.00e-03 1.00e-03 8.68e-04 5.50e-04 2.32e-04
}
