package golden

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/internal/testdata"
)

// sandwich is the norm after a block of GLM-4-0414: what is recorded is
// h = residual + rms_norm(x).
func sandwich(f file) (e example, residual, h []float64) {
	const v = "post_norm_add"
	e = example{
		facts: core.Facts{DType: core.Float64, WeightDType: core.Float64, Dim: f.shape(v + ".in.weight")[0], Eps: 1e-5,
			Cast: core.CastBeforeWeight},
		tokens: f.tensor(v+".in.x").Elems() / f.shape(v + ".in.weight")[0],
		float64s: map[string][]float64{
			"x": f.values(v + ".in.x"), "weight": f.values(v + ".in.weight"), "dy": f.values(v + ".in.d_h"),
		},
	}
	return e, f.values(v + ".in.res"), f.values(v + ".f64.h")
}

// TestASandwichNormIsARMSNormAndAnAddition: add_rms_norm adds first, so neither of its
// outputs is what a norm before the addition gives.
func TestASandwichNormIsARMSNormAndAnAddition(t *testing.T) {
	f := open(t, filepath.Join(testdata.Shared(t, "golden", "ops"), "add_rmsnorm"))
	e, residual, want := sandwich(f)
	out := e.run(t, reference.Kernel(core.RMSNorm))
	h := slices.Clone(out["y"])
	for i, r := range residual {
		h[i] += r
	}
	if d := Distance(h, want); d > 1e-12 {
		t.Errorf("rms_norm and an addition: h differs by %.3g", d)
	}
	if d := Distance(out["dx"], f.values("post_norm_add.f64.grad.x")); d > 1e-12 {
		t.Errorf("rms_norm and an addition: dx differs by %.3g", d)
	}

	e.float64s["residual"], e.float64s["dh"] = residual, make([]float64, len(residual))
	out = e.run(t, reference.Kernel(core.AddRMSNorm))
	for _, name := range []string{"y", "h"} {
		if d := Distance(out[name], want); d < 0.1 {
			t.Errorf("%s of add_rms_norm is the sandwich's h, up to %.3g", name, d)
		}
	}
}
