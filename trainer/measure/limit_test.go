package measure

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
)

// idle is a kernel that is never called.
type idle struct{ core.Kernel }

func (idle) Info() core.Info { return core.Info{Name: "idle"} }

// TestMeasuringEndsAtItsLimit lets the first measurement take all the time: the second use stays plain for now, as
// nothing that is wrong with the kernel, and is counted.
func TestMeasuringEndsAtItsLimit(t *testing.T) {
	s := newSession(core.NewRegistry(), Run{}, Options{CacheDir: "off", Limit: time.Nanosecond,
		Logger: slog.New(slog.DiscardHandler)})
	ask := func(op core.Op) error {
		_, err := s.measure(context.Background(), core.Site{Op: op}, idle{})
		return err
	}
	if err := ask(core.RMSNorm); err == nil || errors.Is(err, core.ErrLater) || !strings.Contains(err.Error(),
		"Run.Memory") {
		t.Errorf("the first measurement is not made whatever the limit: %v", err)
	}
	time.Sleep(time.Microsecond)
	if err := ask(core.SwiGLU); !errors.Is(err, core.ErrLater) {
		t.Errorf("the second measurement: %v, want %v", err, core.ErrLater)
	}
	if s.fresh != 1 || s.late != 1 {
		t.Errorf("%d measured, %d not, want 1 and 1", s.fresh, s.late)
	}
}
