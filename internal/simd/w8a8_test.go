package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// eachInt8 runs f with every kernel of int8 products that this CPU has.
func eachInt8[T interface {
	testing.TB
	Run(name string, f func(T)) bool
}](t T, f func(T)) {
	defer func(k *int8Kernel) { activeInt8 = k }(activeInt8)
	for _, k := range int8Kernels {
		activeInt8 = k
		t.Run(k.name, f)
	}
}

// TestInt8IsTheOneThatTheMachineIsFor compares with the name in TUNE_TEST_INT8, as TUNE_TEST_VARIANT says what the
// variant has to be.
func TestInt8IsTheOneThatTheMachineIsFor(t *testing.T) {
	want := os.Getenv("TUNE_TEST_INT8")
	if want == "" {
		t.Skip("TUNE_TEST_INT8 does not say which")
	}
	if activeInt8.name != want {
		t.Errorf("products of int8 are %s, want %s", activeInt8.name, want)
	}
}

// quantisedPlainly is the definition, in float64 but for the quotient.
func quantisedPlainly(x, scale float32, offset int32) int8 {
	r := math.RoundToEven(float64(x / scale))
	if r != r {
		r = 0
	}
	return int8(max(-128, min(127, r+float64(offset))))
}

// TestW8A8EqualsItsFormula compares bits, at every length up to some vectors, for numbers of rows and columns that
// leave all rests, between guard pages.
func TestW8A8EqualsItsFormula(t *testing.T) {
	eachInt8(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 8))
		for k := 1; k < 200; k++ {
			for _, static := range []bool{false, true} {
				p := randomW8A8(t, rng, 1+k%9, 1+k%11, k, static)
				p.Multiply()
				checkW8A8(t, p)
			}
		}
		m, n := 37, 530
		if testing.Short() {
			m, n = 17, 133
		}
		for _, k := range []int{1030, 1024} { // several threads
			p := randomW8A8(t, rng, m, n, k, false)
			p.Multiply()
			checkW8A8(t, p)
		}
	})
}

// randomW8A8 has runs of the largest numbers in every second row, which saturate what is narrower than int32.
func randomW8A8(t *testing.T, rng *rand.Rand, m, n, k int, static bool) W8A8 {
	floats := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	x, w := floats(m*k), make([]int8, n*k)
	for i := range w {
		if w[i] = int8(rng.IntN(256) - 128); i/k%2 == 0 {
			w[i] = -128
		}
	}
	for i := range x {
		if i/k%2 == 0 {
			x[i] = float32(math.Copysign(1000, float64(x[i/k*k])))
		}
	}
	p := W8A8{M: m, N: n, K: k, X: guarded(t, x), Weight: guarded(t, w), Y: guarded(t, make([]float32, m*n)),
		Scale: guarded(t, floats(n)), Bias: guarded(t, floats(n)), Static: static}
	if static {
		p.Bias, p.QuantBias, p.InputScale, p.InputOffset = nil, make([]int32, n), 0.03, int32(rng.IntN(256)-128)
		for i := range p.QuantBias {
			p.QuantBias[i] = int32(rng.IntN(1<<20) - 1<<19)
		}
	}
	return p
}

func checkW8A8(t *testing.T, p W8A8) {
	t.Helper()
	for r := range p.M {
		x, s := p.X[r*p.K:][:p.K], p.InputScale
		if !p.Static {
			s = 0
			for _, v := range x {
				s = max(s, float32(math.Abs(float64(v))))
			}
			s /= 127
		}
		q := make([]int64, p.K)
		for i, v := range x {
			q[i] = int64(quantisedPlainly(v, s, p.InputOffset))
		}
		for n := range p.N {
			sum := int64(0)
			for i, w := range p.Weight[n*p.K:][:p.K] {
				sum += q[i] * int64(w)
			}
			var want float32
			if p.Static {
				want = float32(sum+int64(p.QuantBias[n])) * p.Scale[n]
			} else {
				want = float32(float32(float32(sum)*s)*p.Scale[n]) + p.Bias[n]
			}
			if got := p.Y[r*p.N+n]; got != want {
				t.Fatalf("%dx%dx%d, static %v: [%d %d] is %v, want %v", p.M, p.N, p.K, p.Static, r, n, got, want)
			}
		}
	}
}

// TestQuantiseAtTheEdges has each number in every place of a vector.
func TestQuantiseAtTheEdges(t *testing.T) {
	eachInt8(t, func(t *testing.T) {
		inf, nan := float32(math.Inf(1)), float32(math.NaN())
		x := []float32{0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 1e30, -1e30, inf, -inf, nan, 3e38, 1023.5, -1024.5}
		x = slices.Repeat(x, 33)
		for _, offset := range []int32{-128, -17, 0, 3, 127} {
			for _, scale := range []float32{1, 0.25, 1e-3, 3e-39} {
				q := make([]int8, len(x))
				QuantiseStatic(q, x, scale, offset)
				for i, v := range x {
					if want := quantisedPlainly(v, scale, offset); q[i] != want {
						t.Fatalf("%v / %v + %d is %d, want %d", v, scale, offset, q[i], want)
					}
				}
			}
		}
		tiny := float32(math.SmallestNonzeroFloat32)
		for _, c := range []struct {
			x     []float32
			scale float32
			q     []int8
		}{
			{[]float32{0, 0}, 1, []int8{0, 0}},
			{[]float32{tiny, -tiny}, 1, []int8{0, 0}}, // a 127th of which is 0
			{[]float32{127, -127, 0.5, 1.5}, 1, []int8{127, -127, 0, 2}},
			{[]float32{3, inf}, inf, []int8{0, 0}},
		} {
			for _, times := range []int{1, 5, 50} {
				x, want := slices.Repeat(c.x, times), slices.Repeat(c.q, times)
				q := make([]int8, len(x))
				if s := QuantiseRow(q, x); s != c.scale || !slices.Equal(q, want) {
					t.Errorf("%d times %v has the scale %v and is %v, want %v and %v", times, c.x, s, q, c.scale, c.q)
				}
			}
		}
		for place := range 70 {
			x := make([]float32, 70)
			x[place] = nan
			if s := QuantiseRow(make([]int8, len(x)), x); s == s {
				t.Errorf("a row with NaN at %d has the scale %v", place, s)
			}
			if x[place] = -254; QuantiseRow(make([]int8, len(x)), x) != 2 {
				t.Errorf("-254 at %d is not the largest", place)
			}
		}
	})
}

// BenchmarkW8A8 reads a weight of 32 MiB for a row, and a smaller one for many.
func BenchmarkW8A8(b *testing.B) {
	for _, size := range [][3]int{{1, 8192, 4096}, {8, 8192, 4096}, {128, 3072, 1024}} {
		m, n, k := size[0], size[1], size[2]
		eachInt8(b, func(b *testing.B) {
			p := W8A8{M: m, N: n, K: k, X: make([]float32, m*k), Weight: make([]int8, n*k), Y: make([]float32, m*n),
				Scale: make([]float32, n)}
			b.Run(fmt.Sprint(size), func(b *testing.B) {
				b.SetBytes(int64(n * k))
				for b.Loop() {
					p.Multiply()
				}
				b.ReportMetric(2*float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOP/s")
			})
		})
	}
}
