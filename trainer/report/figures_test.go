package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/journal"
)

// The model that is trained from is no result of the run.
func TestTheBestHeldOutLossIsOneAfterAStep(t *testing.T) {
	before, worse := journal.Eval{Loss: 1}, journal.Eval{Step: 3, Loss: 2}
	for want, evals := range map[string][]journal.Eval{
		"perplexity 2.718":                           {before},
		"perplexity 7.389; best 2.0000 after step 3": {before, worse},
		"perplexity 20.09; best 2.0000 after step 3": {worse, {Step: 4, Loss: 3}},
	} {
		all := tiles(&journal.Run{Start: &journal.Start{}, Evals: evals})
		if i := slices.IndexFunc(all, func(t tile) bool { return strings.HasPrefix(t.Name, "Held-out") }); i < 0 ||
			all[i].Detail != want {
			t.Errorf("%v, want %q", all, want)
		}
	}
}

func TestSmoothedLossDoesNotEndAtTheLastValue(t *testing.T) {
	got := smooth([]float64{6, 0, 3, 3, 3, 0}, 2)
	if want := []float64{3, 3, 3, 1.8, 2.25, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := smooth(nil, 2); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestDurationsHaveTwoUnits(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{duration(0.0123), "12.3 ms"}, {duration(0.9996), "1.0 s"}, {duration(9.87), "9.9 s"}, {duration(59.4), "59 s"},
		{duration(61), "1 min 1 s"}, {duration(3 * 3600), "3 h 0 min"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
}
