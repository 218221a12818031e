package golden

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/testdata"
)

// TestASandwichNormIsARMSNormAndAnAddition: the norm after a block of GLM-4-0414 is recorded as
// h = residual + rms_norm(x). add_rms_norm adds first, so neither of its outputs is what a norm
// before the addition gives.
func TestASandwichNormIsARMSNormAndAnAddition(t *testing.T) {
	f := open(t, filepath.Join(testdata.Shared(t, "golden", "ops"), "add_rmsnorm"))
	r := f.variant("post_norm_add")
	D, x, residual, want := r.Shape("weight")[0], r.In("x"), r.In("res"), r.Out("h")
	e := opdef.Example{
		Facts: core.Facts{DType: core.Float64, WeightDType: core.Float64, Dim: D, Eps: 1e-5,
			Cast: core.CastBeforeWeight},
		Tokens:   len(x) / D,
		Float64s: map[string][]float64{"x": x, "weight": r.In("weight"), "dy": r.In("d_h")},
	}
	out := run(t, reference.Kernel(core.RMSNorm), e)
	h := slices.Clone(out["y"])
	for i, r := range residual {
		h[i] += r
	}
	if d := Distance(h, want); !(d <= 1e-12) {
		t.Errorf("rms_norm and an addition: h differs by %.3g", d)
	}
	if d := Distance(out["dx"], r.Grad("x")); !(d <= 1e-12) {
		t.Errorf("rms_norm and an addition: dx differs by %.3g", d)
	}

	e.Float64s["residual"], e.Float64s["dh"] = residual, make([]float64, len(residual))
	out = run(t, reference.Kernel(core.AddRMSNorm), e)
	for _, name := range []string{"y", "h"} {
		if d := Distance(out[name], want); d < 0.1 {
			t.Errorf("%s of add_rms_norm is the sandwich's h, up to %.3g", name, d)
		}
	}
}
