package crosscheck_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer/crosscheck"
)

// serial is a kernel whose calls can go in a series.
type serial struct{ core.Kernel }

func (s *serial) Series(*core.Call) (core.Series, core.Kernel) { return s, s }

func (*serial) RunSeries(context.Context, []core.Step, func(int, time.Duration)) (int, error) {
	return 0, nil
}

// TestACallThatIsComparedGoesAlone, and those behind it may go in a series until the next is compared.
func TestACallThatIsComparedGoesAlone(t *testing.T) {
	checker, k := crosscheck.New(1), &serial{reference.Kernel(core.RMSNorm)}
	checker.Tick()
	watched := checker.Watch(k)
	i := slices.IndexFunc(uses(), func(u use) bool { return u.op == core.RMSNorm })
	c := calls(t, reference.Kernel(core.RMSNorm), uses()[i], kinds["normal"])[0]
	for round := range 3 {
		if of, _ := core.SeriesOf(watched, c); of != nil {
			t.Errorf("round %d: a call that is to be compared goes in a series", round)
		}
		if err := core.Run(t.Context(), watched, c); err != nil {
			t.Fatal(err)
		}
		if of, inner := core.SeriesOf(watched, c); of != core.Series(k) || inner != core.Kernel(k) {
			t.Errorf("round %d: a call that was compared is run by %v of %v", round, inner, of)
		}
		checker.Tick()
	}
	if of, _ := core.SeriesOf(checker.Watch(reference.Kernel(core.RMSNorm)), c); of != nil {
		t.Error("a kernel without a process has a series")
	}
}
