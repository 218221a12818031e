// Package golden compares kernels with what the models' own published code computes:
// outputs and gradients of single ops, recorded in float64. The recordings lie beside
// the repository (see internal/testdata); without them its tests skip.
package golden

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/ops"
	"github.com/seed98097648/tune/internal/testdata"
)

// Run runs k forward and backward on every recorded example of its op, with activations
// and weights stored as dtype, and fails where a result is further from the recording
// than what limit allows, relative to the largest element, and in float32 further than
// the published code's own float32 result.
func Run(t *testing.T, k core.Kernel, dtype core.DType, limit float64) {
	RunEach(t, k, dtype, func(string) float64 { return limit })
}

// RunEach is Run with a limit for each variant of the recordings.
func RunEach(t *testing.T, k core.Kernel, dtype core.DType, limit func(variant string) float64) {
	for _, file := range ops.Of(k.Info().Op).Recordings {
		runFile(t, k, dtype, limit, file)
	}
}

// others are recorded beside the uses of an op, but are none.
var others = []string{
	"mlp", "mlp_fused", // whole MLPs; swiglu is a part of them
	"post_norm_add", // a norm before an addition
}

func runFile(t *testing.T, k core.Kernel, dtype core.DType, limitOf func(string) float64, name string) {
	f := open(t, filepath.Join(testdata.Shared(t, "golden", "ops"), name))
	for _, variant := range f.variants() {
		if slices.Contains(others, variant) {
			continue
		}
		t.Run(variant, func(t *testing.T) {
			e := ops.Of(k.Info().Op).Recorded(f.variant(variant))
			e.Facts.DType = dtype
			if e.Facts.WeightDType != core.InvalidDType && e.Facts.WeightDType != core.Int8 {
				e.Facts.WeightDType = dtype
			}
			out := run(t, k, e)
			if e.Got != nil {
				out = e.Got(out)
			}
			limit := limitOf(variant)
			if dtype != core.Float64 {
				limit = max(limit, f.rounding(variant))
			}
			for name, want := range e.Want {
				if d := Distance(out[name], want); !(d <= limit) {
					t.Errorf("%s: differs by %.3g of its largest element, limit %.3g", name, d, limit)
				}
			}
			for name, want := range e.Exact {
				for i, w := range want {
					if dtype == core.Float32 && float32(out[name][i]) != w {
						t.Fatalf("%s[%d] is %v, and is to be %v to the bit", name, i, out[name][i], w)
					}
				}
			}
		})
	}
}

// run returns the kernel's outputs of both passes.
func run(t *testing.T, k core.Kernel, e opdef.Example) map[string][]float64 {
	t.Helper()
	out := map[string][]float64{}
	saved := map[string]core.Tensor{}
	for _, pass := range k.Info().Op.Passes() {
		c, err := core.NewCall(k.Info().Op, pass, e.Facts)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range c.Sig.In {
			x, ok := saved[a.Name]
			if _, replaced := e.Int32s[a.Name]; replaced || !ok {
				x = tensor(t, e, a)
			}
			c.Set(a.Name, x)
		}
		for _, a := range c.Sig.Out {
			if a.Keeps { // what there was before
				c.Set(a.Name, tensor(t, e, a))
				continue
			}
			c.Set(a.Name, core.NewTensor(a.DType, bind(a, e)...))
		}
		if err := core.Run(t.Context(), k, c); err != nil {
			t.Fatal(err)
		}
		for _, a := range c.Sig.Out {
			saved[a.Name] = c.Output(a.Name)
			if a.DType != core.Int32 {
				out[a.Name] = opdef.Values[float64](c.Output(a.Name))
				continue
			}
			for _, id := range c.Output(a.Name).Int32s() {
				out[a.Name] = append(out[a.Name], float64(id))
			}
		}
	}
	return out
}

// bind returns the shape that a tensor has in the example.
func bind(a core.Arg, e opdef.Example) core.Shape {
	shape := a.Shape.Bind(e.Tokens, e.Rows)
	for i, d := range a.Shape {
		switch d {
		case core.DimB:
			shape[i] = e.Sequences
		case core.DimM:
			shape[i] = e.Places
		}
	}
	return shape
}

// tensor stores a recorded input as the op wants it.
func tensor(t *testing.T, e opdef.Example, a core.Arg) core.Tensor {
	t.Helper()
	x := core.NewTensor(a.DType, bind(a, e)...)
	if v, ok := e.Int32s[a.Name]; ok {
		copy(x.Int32s(), v)
		return x
	}
	if v, ok := e.Int8s[a.Name]; ok {
		copy(x.Int8s(), v)
		return x
	}
	v, ok := e.Float64s[a.Name]
	if !ok || len(v) != x.Elems() {
		t.Fatalf("input %s: %d recorded values for %v", a.Name, len(v), x.Shape)
	}
	opdef.Store(x, v)
	return x
}

// Distance returns max|got-want| / max|want|; NaN when the lengths differ.
func Distance(got, want []float64) float64 {
	if len(got) != len(want) {
		return math.NaN()
	}
	var diff, scale float64
	for i, w := range want {
		diff, scale = max(diff, math.Abs(got[i]-w)), max(scale, math.Abs(w))
	}
	if diff == 0 {
		return 0
	}
	return diff / scale
}
