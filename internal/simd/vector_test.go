package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestDotAgreesWithFloat64Sums(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for n := range 300 {
		a, b := random(rng, n), random(rng, n)
		var want float64
		for i := range a {
			want += float64(a[i]) * float64(b[i])
		}
		if got := float64(Dot(a, b)); math.Abs(got-want) > float64(n+1)*0x1p-24 {
			t.Errorf("n %d: %v, want %v", n, got, want)
		}
	}
}

// TestDotOfManyStaysExact adds a million ones, of which a plain float32 sum of
// products 1.1*1.1 would lose the third digit.
func TestDotOfManyStaysExact(t *testing.T) {
	a := make([]float32, 1<<20)
	for i := range a {
		a[i] = 1.1
	}
	want := float64(len(a)) * float64(a[0]) * float64(a[0])
	if got := float64(Dot(a, a)); math.Abs(got-want) > 1e-5*want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAxpyAddsScaled(t *testing.T) {
	y := []float32{1, 2, 3}
	Axpy(2, []float32{10, 20, 30}, y)
	if y[0] != 21 || y[1] != 42 || y[2] != 63 {
		t.Errorf("got %v", y)
	}
}

// TestExpIsWithinTwoUnits walks through the whole range in small steps.
func TestExpIsWithinTwoUnits(t *testing.T) {
	for x := float32(-105); x < 90; x += 0.00037 {
		got, exact := exp(x), math.Exp(float64(x))
		want := float32(exact)
		ulp := float64(math.Nextafter32(want, float32(math.Inf(1)))) - float64(want)
		if got != want && !(math.Abs(float64(got)-exact) <= 2*ulp) {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestSigmoidAtTheEdges(t *testing.T) {
	inf := float32(math.Inf(1))
	x := []float32{0, inf, -inf, 200, -200, 100, -100, float32(math.NaN())}
	want := []float32{0.5, 1, 0, 1, 0, 1, 0, x[7]}
	Sigmoid(x, x)
	for i, v := range x[:7] {
		if v != want[i] {
			t.Errorf("element %d: %v, want %v", i, v, want[i])
		}
	}
	if x[7] == x[7] {
		t.Errorf("NaN became %v", x[7])
	}
}

func TestVectorLengthsMustAgree(t *testing.T) {
	a, b := make([]float32, 2), make([]float32, 3)
	for name, f := range map[string]func(){
		"dot": func() { Dot(a, b) }, "axpy": func() { Axpy(1, a, b) }, "sigmoid": func() { Sigmoid(a, b) },
	} {
		func() {
			defer func() {
				if r := recover(); r != badLength {
					t.Errorf("%s: panic %v, want %q", name, r, badLength)
				}
			}()
			f()
		}()
	}
}

func BenchmarkSigmoid(b *testing.B) {
	x := make([]float32, 4096)
	for i := range x {
		x[i] = float32(i-2048) / 256
	}
	dst := make([]float32, len(x))
	b.SetBytes(int64(4 * len(x)))
	for b.Loop() {
		Sigmoid(dst, x)
	}
}
