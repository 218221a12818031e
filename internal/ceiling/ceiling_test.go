package ceiling

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/simd"
)

func TestMeasureFindsEveryCeilingAndLeavesTheThreadsAlone(t *testing.T) {
	for _, in := range []time.Duration{long, -1} {
		findsEveryCeiling(t, in)
	}
}

func findsEveryCeiling(t *testing.T, in time.Duration) {
	before := simd.Threads()
	c, err := MeasureFor(t.Context(), 2, in)
	if err != nil {
		t.Fatal(err)
	}
	if simd.Threads() != before {
		t.Errorf("%d threads, before %d", simd.Threads(), before)
	}
	if c.Threads != 2 {
		t.Errorf("measured with %d threads, want 2", c.Threads)
	}
	// Far outside what any machine does that could run this.
	for name, v := range map[string]float64{"bandwidth": c.Bandwidth, "products": c.Products,
		"bandwidth of a thread": c.Bandwidth1, "products of a thread": c.Products1} {
		if v < 1e7 || v > 1e16 {
			t.Errorf("%s: %g per second", name, v)
		}
	}
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func TestBestIsTheHigherOfEach(t *testing.T) {
	got := Ceilings{2, 10, 200, 5, 100}.Best(Ceilings{2, 20, 100, 4, 150})
	if want := (Ceilings{2, 20, 200, 5, 150}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestFloorIsTheRoofThatApplies(t *testing.T) {
	c := Ceilings{Bandwidth: 1e9, Products: 1e12}
	for _, tt := range []struct {
		name         string
		bytes, flops float64
		want         time.Duration
		compute      bool
	}{
		{"nothing to do", 0, 0, 0, false},
		{"memory alone", 1e9, 0, time.Second, false},
		{"few operations for each byte", 1e9, 5e11, time.Second, false},
		{"many operations for each byte", 1e6, 2e12, 2 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d, compute := c.Floor(tt.bytes, tt.flops); d != tt.want || compute != tt.compute {
				t.Errorf("%v, compute %v; want %v, %v", d, compute, tt.want, tt.compute)
			}
		})
	}
	if d, _ := (Ceilings{}).Floor(1, 1); d != 0 {
		t.Errorf("without ceilings the floor is %v, want 0", d)
	}
}
