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
