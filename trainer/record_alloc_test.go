package trainer

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/trainer/journal"
)

// steady returns what the journal of a run adds to a step that nothing happens in, with as
// many kernels as a run has.
func steady(t testing.TB) (onStep func()) {
	t.Helper()
	file, err := journal.Open(filepath.Join(t.TempDir(), journal.File))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	r := &recorder{session: &session{}, file: file, sinks: []journal.Sink{file}, memory: memory.NewProcess(), timed: time.Now(), started: time.Now()}
	t.Cleanup(func() { r.memory.Close() })
	for range 8 {
		r.health = append(r.health, health{HealthReporter: healthy{}})
	}
	s := Step{Step: 1, Loss: 2.345678, LR: 1e-4, GradNorm: 0.789, Tokens: 4096, Took: time.Second}
	return func() { s.Step++; r.onStep(s) }
}

type healthy struct{}

func (healthy) Health() core.Health { return core.Health{Calls: 9} }

func TestTheJournalOfAStepTakesNoMemory(t *testing.T) {
	if n := testing.AllocsPerRun(100, steady(t)); n > 0 {
		t.Errorf("a step allocates %g times", n)
	}
}

// BenchmarkJournal is what the journal costs a step.
func BenchmarkJournal(b *testing.B) {
	onStep := steady(b)
	b.ReportAllocs()
	for b.Loop() {
		onStep()
	}
}
