package optim

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// golden is one file of reference data: what torch computed, in float32 and in float64.
type golden struct {
	file *checkpoint.File
	meta struct {
		Variants map[string]goldenVariant
	}
}

// goldenVariant is one case of a file.
type goldenVariant struct {
	Params map[string]any
	Rel    map[string]float64 `json:"f32_vs_f64_rel"` // how far torch's float32 is from its float64
	Worst  float64            `json:"f32_vs_f64_rel_worst_block_params_last"`
}

// numbers returns the constants; true is 1.
func (v goldenVariant) numbers() map[string]float64 {
	all := map[string]float64{}
	for name, x := range v.Params {
		switch x := x.(type) {
		case float64:
			all[name] = x
		case bool:
			if x {
				all[name] = 1
			}
		}
	}
	return all
}

func openGolden(t *testing.T, op string) *golden {
	g := openGoldenFile(t, op)
	readJSON(t, testdata.Shared(t, "golden", "ops", op+".json"), &g.meta)
	if len(g.meta.Variants) == 0 {
		t.Fatalf("golden data of %s has no variants", op)
	}
	return g
}

// openGoldenFile opens the tensors alone.
func openGoldenFile(t *testing.T, op string) *golden {
	g := &golden{}
	var err error
	if g.file, err = checkpoint.Open(testdata.Shared(t, "golden", "ops", op+".safetensors")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.file.Close() })
	return g
}

// floats returns a float32 or float64 tensor of the file as float64, with its shape.
func (g *golden) floats(t *testing.T, name string) ([]float64, core.Shape) {
	t.Helper()
	x, err := g.file.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	if x.DType == core.Float64 {
		return x.Float64s(), x.Shape
	}
	wide := make([]float64, x.Elems())
	for i, v := range x.Float32s() {
		wide[i] = float64(v)
	}
	return wide, x.Shape
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", filepath.Base(path), err)
	}
}

func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// relative returns max|got-want| / max|want|.
func relative(got []float32, want []float64) float64 {
	worst, scale := 0.0, 0.0
	for i, w := range want {
		worst = max(worst, math.Abs(float64(got[i])-w))
		scale = max(scale, math.Abs(w))
	}
	if worst == 0 {
		return 0
	}
	return worst / scale
}
