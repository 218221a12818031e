package trainer_test

import (
	"fmt"
	"testing"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/preference"
)

// TestWhatIsNoStepTellsHowFarItIs: a pass of the reference over all data, and each evaluation, may take longer than the
// steps do.
func TestWhatIsNoStepTellsHowFarItIs(t *testing.T) {
	j := job(t)
	preferring(t, j, preference.Config{Stage: preference.DPO})
	j.Config.Steps = 1
	var parts []trainer.Work // how far each came
	j.Hooks.OnWork = func(w trainer.Work) {
		if w.Done == 0 {
			parts = append(parts, w)
			return
		}
		if last := parts[len(parts)-1]; w.What != last.What || w.Total != last.Total || w.Done != last.Done+1 {
			t.Errorf("%+v comes after %+v", w, last)
		}
		parts[len(parts)-1] = w
	}
	run1(t, j)
	held, all := j.Eval.Len(), j.Train.Len()+j.Eval.Len()
	want := fmt.Sprint([]trainer.Work{{"reference", all - 1, all}, {"evaluating", held - 1, held}, {"evaluating", held - 1, held}})
	if got := fmt.Sprint(parts); got != want {
		t.Errorf("it is told %s, want %s", got, want)
	}
}
