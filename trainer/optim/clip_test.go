package optim

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed98097648/tune/internal/simd"
)

func TestClippingMatchesTorch(t *testing.T) {
	g := openGolden(t, "clip_grad_norm")
	for name, variant := range g.meta.Variants {
		t.Run(name, func(t *testing.T) {
			a, _ := g.floats(t, name+".in.a")
			b, _ := g.floats(t, name+".in.b")
			want, _ := g.floats(t, name+".f64.total_norm")
			norm := GlobalNorm([][]float32{narrow(a), narrow(b)})
			// Both sum the same float32 numbers in float64: only the order is free.
			if rel := math.Abs(norm-want[0]) / want[0]; !(rel <= 1e-14) {
				t.Errorf("norm %v, want %v", norm, want[0])
			}
			scale := float32(ClipCoefficient(norm, variant.numbers()["max_norm"]))
			for grad, in := range map[string][]float64{"a": a, "b": b} {
				clipped := narrow(in)
				for i := range clipped {
					clipped[i] *= scale
				}
				want, _ := g.floats(t, name+".f64."+grad)
				// Rounding the coefficient and then the product: half a unit each.
				if rel := relative(clipped, want); !(rel <= 0x1p-23) {
					t.Errorf("gradient %s: relative error %.2g", grad, rel)
				}
			}
		})
	}
}

func TestClipCoefficient(t *testing.T) {
	tests := []struct {
		name            string
		norm, max, want float64
	}{
		{"below the limit", 0.5, 1, 1},
		{"above the limit", 4 - 1e-6, 1, 0.25},
		{"zero norm", 0, 1, 1},
		{"zero turns clipping off", 1e9, 0, 1},
		{"infinite norm", math.Inf(1), 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ClipCoefficient(tt.norm, tt.max); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if got := ClipCoefficient(math.NaN(), 1); !math.IsNaN(got) {
		t.Errorf("a NaN norm gives %v, want NaN", got)
	}
}

func TestGlobalNormIsTheSameForAnyNumberOfThreads(t *testing.T) {
	defer simd.SetThreads(0)
	rng := rand.New(rand.NewPCG(5, 0))
	var grads [][]float32
	for _, n := range []int{0, 1, normBlock, normBlock + 1, 3*normBlock - 1} {
		g := make([]float32, n)
		for i := range g {
			g[i] = float32(rng.NormFloat64())
		}
		grads = append(grads, g)
	}
	simd.SetThreads(1)
	want := GlobalNorm(grads)
	for _, threads := range []int{2, 3, 16} {
		simd.SetThreads(threads)
		if got := GlobalNorm(grads); got != want {
			t.Errorf("%d threads give %v, 1 gives %v", threads, got, want)
		}
	}
}

// TestSquaresAreThoseOfTheNorm, one gradient after the other.
func TestSquaresAreThoseOfTheNorm(t *testing.T) {
	for _, n := range []int{0, 1, normBlock - 1, normBlock, normBlock + 1, 3*normBlock - 1} {
		g, sum := randomParam(1, n).Grad, 0.0
		for _, s := range Squares(g) {
			sum += s
		}
		if got, want := math.Sqrt(sum), GlobalNorm([][]float32{g}); got != want {
			t.Errorf("%d elements: the root is %v, the norm %v", n, got, want)
		}
	}
}

func TestGlobalNormShowsWhatIsNotFinite(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(-1))} {
		if norm := GlobalNorm([][]float32{{1, 2}, {3, bad}}); !math.IsNaN(norm) && !math.IsInf(norm, 1) {
			t.Errorf("a gradient of %v gives a norm of %v", bad, norm)
		}
	}
}

func TestGlobalNormDoesNotOverflow(t *testing.T) {
	// The squares are beyond float32.
	if got := GlobalNorm([][]float32{{3e30, 4e30}}); !(math.Abs(got/5e30-1) <= 1e-6) {
		t.Errorf("got %v, want 5e30", got)
	}
}
