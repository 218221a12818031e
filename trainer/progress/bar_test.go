package progress

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer"
)

// TestAnInterruptedBarShowsTheLastStep: the bar is drawn ten times a second at most, so
// that it is usually behind when a run is interrupted.
func TestAnInterruptedBarShowsTheLastStep(t *testing.T) {
	var notes bytes.Buffer
	p := New(io.Discard, &notes)
	p.start = trainer.Start{Steps: 1_000_000, Config: trainer.Config{Batch: 1, Seq: 1, Accumulate: 1}}
	p.bar = newBar(p.start.Steps, &notes)
	var last trainer.Step
	for i := range 5 {
		last = trainer.Step{Step: i + 1, Loss: float64(i), TokensPer: 1}
		p.onStep(last)
	}
	p.Summary(&trainer.Summary{Steps: last.Step, Last: last, Interrupted: true})
	drawn := strings.Split(notes.String(), "\r")
	if final := drawn[len(drawn)-1]; !strings.Contains(final, "5/1000000") || !strings.Contains(final, "loss 4.000") ||
		!strings.HasSuffix(final, "\n") {
		t.Errorf("the bar ends as %q", final)
	}
}

// TestTheBarKeepsToItsLine, for a terminal breaks a longer one, which then stays on the screen.
func TestTheBarKeepsToItsLine(t *testing.T) {
	s := trainer.Step{Step: 1, Loss: 12.3456, LR: 1e-4, GradNorm: 2.1, TokensPer: 2120}
	for columns, want := range map[int]string{
		0:  "loss 12.346",
		21: "loss 12.346",
		22: "loss 12.346 lr 1.0e-04",
		30: "loss 12.346 lr 1.0e-04",
		31: "loss 12.346 lr 1.0e-04 norm 2.1",
		43: "loss 12.346 lr 1.0e-04 norm 2.1 2.12k tok/s",
	} {
		if got := describe(s, columns); got != want {
			t.Errorf("%d columns have %q, want %q", columns, got, want)
		}
	}
	p := New(io.Discard, io.Discard) // of which nothing is known, as of 80 columns
	p.bar = newBar(1_000_000, io.Discard)
	if got, want := p.besideBar(), 80-4-len(" 100% || (1000000/1000000) [0s:0s] "); got != want {
		t.Errorf("%d columns are left, want %d", got, want)
	}
}
