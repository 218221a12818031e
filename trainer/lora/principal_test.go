package lora

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// TestPiSSABeginsAsPublishedCodeDoes compares A, B, their product and what is left of the weight.
func TestPiSSABeginsAsPublishedCodeDoes(t *testing.T) {
	text, err := os.ReadFile(testdata.Shared(t, "golden", "ops", "lora_variants.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Variants map[string]struct {
			Params struct {
				In, Out, R int
				Alpha      float64
				Scaling    float64
			} `json:"params"`
			Rel map[string]float64 `json:"f32_vs_f64_rel"`
		} `json:"variants"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	f, err := checkpoint.Open(testdata.Shared(t, "golden", "ops", "lora_variants.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tensor := func(name string) core.Tensor {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	found := 0
	for name, v := range index.Variants {
		if !strings.HasPrefix(name, "pissa") {
			continue
		}
		found++
		p := v.Params
		d := &Decomposition{Config{Rank: p.R, Alpha: p.Alpha, Init: PiSSA},
			map[string]*part{"w": {out: p.Out, in: p.In}}}
		rest, err := d.Rest("w", tensor(name+".in.W"))
		if err != nil {
			t.Fatal(err)
		}
		began := d.parts["w"]
		for what, got := range map[string][]float32{"A": began.a, "B": began.b, "residual": rest.Float32s()} {
			want, most := tensor(name+".f64."+what).Float64s(), 0.0
			high := slices.MaxFunc(want, func(x, y float64) int { return int(math.Copysign(1, math.Abs(x)-math.Abs(y))) })
			for i, x := range want {
				most = max(most, math.Abs(float64(got[i])-x)/math.Abs(high))
			}
			if limit := 5 * v.Rel[what]; !(most <= limit) || v.Rel[what] == 0 {
				t.Errorf("%s: %s differs by %.2g, its recording in float32 by %.2g", name, what, most, v.Rel[what])
			}
		}
	}
	if found == 0 {
		t.Error("no recording is of PiSSA")
	}
}

// spectrum returns a matrix with singular values that fall by a factor, times the first.
func spectrum(out, in int, factor float64) []float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	u, v := make([]float32, out*out), make([]float32, out*in)
	for _, x := range [][]float32{u, v} {
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
	}
	orthonormal(u, out)
	orthonormal(v, in)
	w := make([]float32, out*in)
	for k := range out {
		s := math.Pow(factor, float64(k))
		for n := range out {
			for i := range in {
				w[n*in+i] += float32(s) * u[k*out+n] * v[k*in+i]
			}
		}
	}
	return w
}

// TestAFewDimensionsHoldThePrincipalPart: of a matrix too large to be taken apart as it is, what is left has as few
// squares as there can be.
func TestAFewDimensionsHoldThePrincipalPart(t *testing.T) {
	const out, in, rank = 120, 150, 4
	for _, factor := range []float64{0.5, 0.9, 0.99} {
		w, least := spectrum(out, in, factor), 0.0
		for k := rank; k < out; k++ {
			least += math.Pow(factor, float64(2*k))
		}
		d := &Decomposition{Config{Rank: rank, Alpha: 2, Init: PiSSA}, map[string]*part{"w": {out: out, in: in}}}
		rest, err := d.Rest("w", core.FromFloat32(slices.Clone(w), out, in))
		if err != nil {
			t.Fatal(err)
		}
		left := 0.0
		for _, x := range rest.Float32s() {
			left += float64(x) * float64(x)
		}
		if !(left <= least*1.002+1e-9) {
			t.Errorf("factor %g: %.6g is left, could be %.6g", factor, left, least)
		}
	}
	zero := make([]float32, out*in)
	if b, a := principal(zero, out, in, rank, 1); slices.Max(a) != 0 || slices.Max(b) != 0 {
		t.Error("zeros have a principal part")
	}
}
