package ops

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
)

// differences returns the gradient of loss with respect to x by central differences.
// With this step, truncation and cancellation are both near 1e-10 for values near one.
func differences(x []float64, loss func() float64) []float64 {
	const step = 1e-5
	grad := make([]float64, len(x))
	for i, v := range x {
		x[i] = v + step
		up := loss()
		x[i] = v - step
		grad[i] = (up - loss()) / (2 * step)
		x[i] = v
	}
	return grad
}

func checkGradient(t *testing.T, name string, got, x []float64, loss func() float64) {
	t.Helper()
	want := differences(x, loss)
	var diff, scale float64
	for i, w := range want {
		diff, scale = max(diff, math.Abs(got[i]-w)), max(scale, math.Abs(w))
	}
	if !(diff <= 1e-8*scale) {
		t.Errorf("%s: differs from finite differences by %.3g of its largest element", name, diff/scale)
	}
}

func normal(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

func TestRMSNormGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, offset := range []int{0, 1} {
		for _, cast := range []core.CastOrder{core.CastBeforeWeight, core.CastAfterWeight} {
			f := core.Facts{DType: core.Float64, WeightDType: core.Float64, Dim: 7, Eps: 0.1, Offset: offset, Cast: cast}
			x, w, dy := normal(rng, 3*7), normal(rng, 7), normal(rng, 3*7)
			loss := func() float64 { y, _ := rmsNorm(f, x, w); return dot(y, dy) }
			dx, dw := rmsNormGradient(f, dy, x, w)
			checkGradient(t, "dx", dx, x, loss)
			checkGradient(t, "dweight", dw, w, loss)
		}
	}
}

func TestSwiGLUGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	gate, up, dy := normal(rng, 20), normal(rng, 20), normal(rng, 20)
	gate[0], gate[1], gate[2] = 0, 40, -40
	loss := func() float64 { return dot(swiglu(gate, up), dy) }
	dgate, dup := swigluGradient(dy, gate, up)
	checkGradient(t, "dgate", dgate, gate, loss)
	checkGradient(t, "dup", dup, up, loss)
	if got, want := dgate[0], dy[0]*up[0]/2; got != want {
		t.Errorf("dgate at gate 0 is %v, want half of dy*up, %v", got, want)
	}
}

// TestRoPEGradient uses tables that are no rotation, so that a gradient which relies on
// cos^2+sin^2 = 1 shows.
func TestRoPEGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, pairing := range []core.Pairing{core.Half, core.Interleaved} {
		f := core.Facts{Pairing: pairing, RotaryDim: 4, HeadDim: 7}
		x, dy := normal(rng, 3*2*7), normal(rng, 3*2*7)
		cos, sin, negated := normal(rng, 5*2), normal(rng, 5*2), make([]float64, 5*2)
		for i, s := range sin {
			negated[i] = -s
		}
		positions := []int32{4, 0, 4}
		loss := func() float64 {
			y := slices.Clone(x)
			rotate(f, 2, y, cos, sin, positions)
			return dot(y, dy)
		}
		dx := slices.Clone(dy)
		rotate(f, 2, dx, cos, negated, positions)
		checkGradient(t, string(pairing), dx, x, loss)
	}
}

func TestMoEGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	const T, D, I = 4, 5, 3
	for _, c := range []struct {
		name string
		E, K int
		ids  []int32
	}{
		{"two of four, one idle", 4, 2, []int32{2, 0, 0, 1, 1, 2, 0, 2}},
		{"one of two, all to one", 2, 1, []int32{1, 1, 1, 1}},
		{"all of two", 2, 2, []int32{0, 1, 1, 0, 0, 1, 1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := core.Facts{DType: core.Float64, Dim: D, Intermediate: I, Experts: c.E, TopK: c.K}
			x, dy := normal(rng, T*D), normal(rng, T*D)
			r := newRouting(c.ids, normal(rng, T*c.K))
			all := make([]expert[float64], c.E)
			for e := range all {
				all[e] = expert[float64]{normal(rng, I*D), normal(rng, I*D), normal(rng, D*I)}
			}
			weights := func(e int) expert[float64] { return all[e] }
			loss := func() float64 { y, _ := experts(f, x, r, weights); return dot(y, dy) }
			_, gateUp := experts(f, x, r, weights)
			grads := make([]expert[float64], c.E)
			dx, dweights := expertsGradient(f, dy, x, r, gateUp, weights, func(e int, d expert[float64]) { grads[e] = d })
			checkGradient(t, "dx", dx, x, loss)
			checkGradient(t, "drouting_weights", dweights, r.weights, loss)
			for e, d := range grads {
				checkGradient(t, "dgate", d.gate, all[e].gate, loss)
				checkGradient(t, "dup", d.up, all[e].up, loss)
				checkGradient(t, "ddown", d.down, all[e].down, loss)
			}
		})
	}
}

func TestRoutingOrderIsStableByExpert(t *testing.T) {
	r := newRouting([]int32{2, 0, 0, 2, 2, 0}, make([]float64, 6))
	if want := []int{1, 2, 5, 0, 3, 4}; !slices.Equal(r.order, want) {
		t.Errorf("order %v, want %v", r.order, want)
	}
}
