package generate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/seed98097648/tune/trainer/generate"
)

func TestInOrder(t *testing.T) {
	bad := errors.New("no")
	for name, c := range map[string]struct {
		fails, refuses, stops int // at which value something goes wrong; -1 for none
		want                  error
		taken                 int // at most, and without an error exactly
	}{
		"all":                 {-1, -1, -1, nil, 300},
		"one fails":           {170, -1, -1, bad, 170},
		"one is not wanted":   {-1, 170, -1, bad, 171},
		"somebody stops them": {-1, -1, 170, context.Canceled, 171},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var running atomic.Int32
			taken := 0
			err := generate.InOrder(ctx, 300, func(_ context.Context, i int) (int, error) {
				running.Add(1)
				defer running.Add(-1)
				for range rand.IntN(20) {
					runtime.Gosched()
				}
				if i == c.fails {
					return 0, bad
				}
				return i * i, nil
			}, func(i, v int) error {
				if i != taken || v != i*i {
					t.Fatalf("took %d as value %d after %d values", v, i, taken)
				}
				taken++
				if i == c.stops {
					stop()
				}
				if i == c.refuses {
					return bad
				}
				return nil
			})
			if !errors.Is(err, c.want) || running.Load() != 0 {
				t.Errorf("error %v with %d running, want %v", err, running.Load(), c.want)
			}
			if taken > c.taken || c.want == nil && taken != c.taken {
				t.Errorf("%d values were taken, want %d", taken, c.taken)
			}
		})
	}
}
