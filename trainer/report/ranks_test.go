package report_test

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/journal"
)

// TestThePageOfSeveralRanksSaysWhatTheyWaitFor: a run that one rank began, and three on two machines went on with.
func TestThePageOfSeveralRanksSaysWhatTheyWaitFor(t *testing.T) {
	r, several := &journal.Run{}, start()
	record(t, r, start(), &journal.Step{Time: noon, Step: 1, Loss: 2, Seconds: 9})
	several.Resumed, several.Ranks = 1, []string{"left", "right", "left"}
	record(t, r, several)
	for i, slowest := range []int{1, 2, 1, 7} { // the last of a time with more ranks
		record(t, r, &journal.Step{Time: noon, Step: 2 + i, Loss: 2, Seconds: 2, Waited: 0.5, Slowest: slowest})
	}
	text := strings.ReplaceAll(page(t, r), "<wbr/>", "")
	for _, want := range []string{
		"<b>3 on 2 machines</b>",
		"the first waited 25% of the time for others and the network; rank 1 (right) computed longest in 2 of 4 steps",
		"<h2>Waiting for other ranks</h2>", "Waiting for other ranks by step, 25% at step 5",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if alone := page(t, sample(t)); strings.Contains(alone, "other ranks") {
		t.Error("the page of one rank tells of others")
	}
}
