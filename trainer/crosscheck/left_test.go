package crosscheck_test

import (
	"context"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer/crosscheck"
)

// TestWhatCannotBeComparedIsCounted and said, once for each use; what can be is compared beside it.
func TestWhatCannotBeComparedIsCounted(t *testing.T) {
	half := core.Facts{DType: core.BFloat16, Intermediate: 8, Activation: "silu", Layout: core.Separate}
	single := half
	single.DType = core.Float32
	check := crosscheck.New(1000)
	k := check.Watch(reference.Kernel(core.SwiGLU))
	for range 3 {
		for _, f := range []core.Facts{half, single} {
			for _, c := range calls(t, k, use{core.SwiGLU, f, 4}, kinds["zero"]) {
				if err := core.Run(context.Background(), k, c); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	s := check.Stats()
	if s.Calls != 2 || s.Left[core.SwiGLU] != 2 || len(s.Left) != 1 {
		t.Errorf("%d calls are compared, %v are not; want both passes of each", s.Calls, s.Left)
	}
	if got := s.String(); !strings.HasPrefix(got, "2 uses of kernels on ") || !strings.HasSuffix(got, "; not compared: 2 uses of swiglu") {
		t.Errorf("it says %q", got)
	}
	s.Left = map[core.Op]int{core.SwiGLU: 1, core.RoPE: 3}
	if got := s.String(); !strings.HasSuffix(got, "; not compared: 3 uses of rope, 1 use of swiglu") {
		t.Errorf("it says %q", got)
	}
}
