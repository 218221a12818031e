package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomNF4 returns matrices of random numbers in NF4, and the numbers.
func randomNF4(matrices, elems int) (*NF4, []float32) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := make([]float32, matrices*elems)
	for i := range w {
		w[i] = float32(rng.NormFloat64()) * float32(1+i/elems)
	}
	q := &NF4{Codes: make([]byte, (len(w)+1)/2), Absmax: make([]int8, matrices*NF4Blocks(elems)),
		Scale: make([]float32, NF4Scales(matrices, elems)), Matrices: matrices}
	LinearNF4Map(q.Scale)
	for m := range matrices {
		q.Quantise(m, elems, func(dst []float32, from int) { copy(dst, w[m*elems+from:]) })
	}
	return q, w
}

// TestNF4EqualsItsLoop widens pieces of every length from every place in two blocks, between guard pages.
func TestNF4EqualsItsLoop(t *testing.T) {
	q, w := randomNF4(1, 2*NF4Block+35)
	q.Codes = guarded(t, slices.Clone(q.Codes))
	want := make([]float32, len(w))
	for i := range want {
		code := q.Codes[i/2] >> 4
		if i%2 > 0 {
			code = q.Codes[i/2] & 15
		}
		want[i] = nf4Values[code] * q.absmax(i/NF4Block)
	}
	eachVariant(t, func(t *testing.T) {
		for n := range len(w) + 1 {
			got := guarded(t, make([]float32, n))
			for from := 0; from+n <= len(w); from++ {
				q.Load(got, from)
				if !slices.Equal(got, want[from:from+n]) {
					t.Fatalf("%d elements from %d on: %v, want %v", n, from, got, want[from:from+n])
				}
			}
		}
	})
}

// TestNF4TakesTheNearestValue compares the search with a look at all values, around every middle.
func TestNF4TakesTheNearestValue(t *testing.T) {
	check := func(v float32) {
		var want byte
		for int(want) < 15 && v > nf4Middles[want] {
			want++
		}
		if got := nf4Code(v); got != want {
			t.Errorf("%v became code %d, want %d", v, got, want)
		}
	}
	for _, m := range slices.Concat(nf4Middles[:15], nf4Values[:]) {
		down, up := m, m
		for range 50 {
			check(down)
			check(up)
			down, up = math.Nextafter32(down, -1), math.Nextafter32(up, 1)
		}
	}
	for i := range 1 << 16 {
		check(float32(i)/(1<<15) - 1)
	}
}

// TestMatricesInNF4AreApart: each has its own mean and scales, and its error is that of its own numbers.
func TestMatricesInNF4AreApart(t *testing.T) {
	const matrices, elems = 3, 300 * NF4Block
	q, w := randomNF4(matrices, elems)
	for m := range matrices {
		alone := &NF4{Codes: make([]byte, elems/2), Absmax: make([]int8, NF4Blocks(elems)),
			Scale: make([]float32, NF4Scales(1, elems)), Matrices: 1}
		LinearNF4Map(alone.Scale)
		alone.Quantise(0, elems, func(dst []float32, from int) { copy(dst, w[m*elems+from:]) })
		got, want := make([]float32, elems), make([]float32, elems)
		q.Load(got, m*elems)
		alone.Load(want, 0)
		if !slices.Equal(got, want) {
			t.Errorf("matrix %d differs from itself alone", m)
		}
		var err, size float64
		for i, v := range w[m*elems:][:elems] {
			err, size = err+math.Pow(float64(v-got[i]), 2), size+float64(v)*float64(v)
		}
		if rel := math.Sqrt(err / size); !(rel <= 0.1) || rel < 0.05 {
			t.Errorf("matrix %d: an error of %.3g of its numbers, about 0.09 is usual", m, rel)
		}
	}
}

func TestNF4DoesNotHideWhatIsNotFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		q, w := randomNF4(1, 2*NF4Block)
		w[70] = float32(bad)
		q.Quantise(0, len(w), func(dst []float32, from int) { copy(dst, w[from:]) })
		got := make([]float32, len(w))
		if q.Load(got, 0); !math.IsNaN(float64(got[70])) && !math.IsInf(float64(got[70]), 0) {
			t.Errorf("%v became %v", bad, got[70])
		}
	}
}
