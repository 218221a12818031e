package opbench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestSidesAlternate: after warming up, the order turns around with every round. Calls
// that are longer than a batch run once a turn, and once before to settle.
func TestSidesAlternate(t *testing.T) {
	var order strings.Builder
	side := func(name string) func() error {
		return func() error {
			order.WriteString(name)
			time.Sleep(2 * batch)
			return nil
		}
	}
	ns, reps, err := alternate(t.Context(), []func() error{side("a"), side("b")}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(order.String(), "b"+"aabb"+"bbaa"+"aabb") {
		t.Errorf("order %s", order.String())
	}
	if reps != 1 || len(ns) != 2 || len(ns[0]) != 3 || len(ns[1]) != 3 {
		t.Fatalf("%d calls a turn, times %v", reps, ns)
	}
	for _, v := range append(ns[0], ns[1]...) {
		if v < float64(2*batch) {
			t.Errorf("%g ns for a call of at least %v", v, 2*batch)
		}
	}
}

func TestShortCallsRunManyTimesATurn(t *testing.T) {
	_, reps, err := alternate(t.Context(), []func() error{func() error { return nil }}, 1)
	if err != nil || reps < 2 || reps > maxReps {
		t.Errorf("%d calls of nothing a turn, error %v", reps, err)
	}
}

func TestAlternateStops(t *testing.T) {
	broken := errors.New("broken")
	if _, _, err := alternate(t.Context(), []func() error{func() error { return broken }}, 1); !errors.Is(err, broken) {
		t.Errorf("error %v, want that of the side", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := alternate(ctx, []func() error{func() error { return nil }}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
