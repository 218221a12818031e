package trainer_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer"
)

// TestFindRate: the tiny model learns at some rate below the last, at which its loss is larger again.
func TestFindRate(t *testing.T) {
	fresh := func() *trainer.Job {
		j := long(t, "")
		j.Config.Checkpoints = trainer.Checkpoints{}
		return j
	}
	find := func() *trainer.Rates {
		r, err := fresh().FindRate(t.Context(), 60)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := find()
	n := len(r.Points)
	if n < 10 || r.Points[0].Rate != 1e-7 || n == 60 && !(math.Abs(r.Points[59].Rate-1) <= 1e-9) || n < 60 && !r.Diverged {
		t.Fatalf("%d rates from %g, diverged %v", n, r.Points[0].Rate, r.Diverged)
	}
	least := slices.MinFunc(r.Points, func(a, b trainer.RatePoint) int {
		if a.Smoothed < b.Smoothed {
			return -1
		}
		return 1
	})
	if s := r.Suggested; s < 1e-5 || s >= least.Rate || s > 0.3 || least.Smoothed > 0.95*r.Points[0].Smoothed {
		t.Errorf("suggested %g; the least loss is %g, at %g, of first %g", s, least.Smoothed, least.Rate, r.Points[0].Smoothed)
	}
	if again := find(); !slices.Equal(again.Points, r.Points) {
		t.Error("the same seed gives other losses")
	}
	if _, err := fresh().FindRate(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "it takes 10 or more") {
		t.Errorf("error %v", err)
	}
}
