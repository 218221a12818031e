package report

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/journal"
)

// TestRewardsThatAreNotThereAreNotDrawn: of a step of kto without bad answers, theirs are not 0.
func TestRewardsThatAreNotThereAreNotDrawn(t *testing.T) {
	both := journal.Metrics{"rewards/chosen": 1, "rewards/rejected": -1, "rewards/margins": 2, "rewards/accuracies": 1}
	good := journal.Metrics{"rewards/chosen": 2, "rewards/accuracies": 1}
	r := &journal.Run{Steps: []journal.Step{{Step: 1, Metrics: good}, {Step: 2, Metrics: both}, {Step: 3, Metrics: good}}}
	plots := preferencePlots(r)
	if len(plots) != 2 || len(plots[0].Curves) != 2 {
		t.Fatalf("%+v", plots)
	}
	chosen, rejected := plots[0].Curves[0], plots[0].Curves[1]
	if chosen.Xs != "1 2 3" || rejected.Xs != "2" || rejected.Dots == "" || plots[1].Curves[0].Xs != "1 2 3" {
		t.Errorf("chosen at %q, rejected at %q", chosen.Xs, rejected.Xs)
	}
	if strings.Contains(plots[0].Label, "margin") {
		t.Errorf("the last step has no margin: %q", plots[0].Label)
	}
	r.Steps = r.Steps[:2]
	if label := preferencePlots(r)[0].Label; label != "Rewards by step, margin 2 at step 2" {
		t.Errorf("label %q", label)
	}
}
