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
	"github.com/seed98097648/tune/internal/testdata"
)

// example is one recorded use of an op.
type example struct {
	facts  core.Facts
	tokens int
	rows   int // of the rope tables
	// float64s and int32s hold inputs by the op's own names, those of both passes. What
	// the kernel's forward pass saves is not among them, unless it is to be replaced.
	float64s map[string][]float64
	int32s   map[string][]int32
	want     map[string][]float64
	// got turns a kernel's outputs into what was recorded; nil: they are the same.
	got func(out map[string][]float64) map[string][]float64
}

// Run runs k forward and backward on every recorded example of its op, with activations
// and weights stored as dtype, and fails where a result is further from the recording
// than what limit allows, relative to the largest element, and in float32 further than
// the published code's own float32 result.
func Run(t *testing.T, k core.Kernel, dtype core.DType, limit float64) {
	type recording struct {
		file  string
		build func(file, string) example
	}
	recordings := map[core.Op][]recording{
		core.RMSNorm:    {{"rmsnorm", rmsNorm}},
		core.AddRMSNorm: {{"add_rmsnorm", addRMSNorm}},
		core.SwiGLU:     {{"swiglu", swiglu}},
		core.RoPE:       {{"rope", rope}},
		core.MoEGate:    {{"router_softmax", gate}, {"router_glm", gate}},
		core.MoEExperts: {{"moe_qwen3", moe}},
		core.Attention:  {{"attention", attention}},

		core.LinearCrossEntropy: {{"cross_entropy", linearCrossEntropy}},
	}
	for _, r := range recordings[k.Info().Op] {
		runFile(t, k, dtype, limit, r.file, r.build)
	}
}

// others are recorded beside the uses of an op, but are none.
var others = []string{
	"mlp", "mlp_fused", // whole MLPs; swiglu is a part of them
	"post_norm_add", // a norm before an addition
}

func runFile(t *testing.T, k core.Kernel, dtype core.DType, limit float64, name string,
	build func(file, string) example) {
	f := open(t, filepath.Join(testdata.Shared(t, "golden", "ops"), name))
	for _, variant := range f.variants() {
		if slices.Contains(others, variant) {
			continue
		}
		t.Run(variant, func(t *testing.T) {
			e := build(f, variant)
			e.facts.DType = dtype
			if e.facts.WeightDType != core.InvalidDType {
				e.facts.WeightDType = dtype
			}
			out := e.run(t, k)
			if e.got != nil {
				out = e.got(out)
			}
			limit := limit
			if dtype != core.Float64 {
				limit = max(limit, f.rounding(variant))
			}
			for name, want := range e.want {
				if d := Distance(out[name], want); !(d <= limit) {
					t.Errorf("%s: differs by %.3g of its largest element, limit %.3g", name, d, limit)
				}
			}
		})
	}
}

// run returns the kernel's outputs of both passes.
func (e example) run(t *testing.T, k core.Kernel) map[string][]float64 {
	t.Helper()
	out := map[string][]float64{}
	saved := map[string]core.Tensor{}
	for _, pass := range []core.Pass{core.Forward, core.Backward} {
		c, err := core.NewCall(k.Info().Op, pass, e.facts)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range c.Sig.In {
			x, ok := saved[a.Name]
			if _, replaced := e.int32s[a.Name]; replaced || !ok {
				x = e.tensor(t, a)
			}
			c.Set(a.Name, x)
		}
		for _, a := range c.Sig.Out {
			c.Set(a.Name, core.NewTensor(a.DType, a.Shape.Bind(e.tokens, e.rows)...))
		}
		if err := core.Run(t.Context(), k, c); err != nil {
			t.Fatal(err)
		}
		for _, a := range c.Sig.Out {
			saved[a.Name] = c.Output(a.Name)
			if a.DType != core.Int32 {
				out[a.Name] = float64s(c.Output(a.Name))
				continue
			}
			for _, id := range c.Output(a.Name).Int32s() {
				out[a.Name] = append(out[a.Name], float64(id))
			}
		}
	}
	return out
}

// tensor stores a recorded input as the op wants it.
func (e example) tensor(t *testing.T, a core.Arg) core.Tensor {
	t.Helper()
	x := core.NewTensor(a.DType, a.Shape.Bind(e.tokens, e.rows)...)
	if v, ok := e.int32s[a.Name]; ok {
		copy(x.Int32s(), v)
		return x
	}
	v, ok := e.float64s[a.Name]
	if !ok || len(v) != x.Elems() {
		t.Fatalf("input %s: %d recorded values for %v", a.Name, len(v), x.Shape)
	}
	if a.DType == core.Float64 {
		copy(x.Float64s(), v)
		return x
	}
	single := make([]float32, len(v))
	for i, f := range v {
		single[i] = float32(f)
	}
	x.Store(single, 0)
	return x
}

func float64s(x core.Tensor) []float64 {
	if x.DType == core.Float64 {
		return x.Float64s()
	}
	single := make([]float32, x.Elems())
	x.Load(single, 0)
	v := make([]float64, len(single))
	for i, f := range single {
		v[i] = float64(f)
	}
	return v
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
