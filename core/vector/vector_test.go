package vector_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/internal/simd"
)

// room has the slices of one call, filled with the same numbers each time, so that two
// functions that are given one each must leave the same bits behind.
type room [6][]float32

func newRoom(n int) room {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	var r room
	for i := range r {
		r[i] = make([]float32, n)
		for j := range r[i] {
			r[i][j] = float32(rng.NormFloat64())
		}
	}
	return r
}

// sizes are of parts of a vector, of many and of more than one block of sums.
var sizes = []int{0, 1, 7, 16, 33, 1027, 5000}

// TestLoopsAreThoseOfSimd: every exported loop leaves the same bits and returns the same
// value as the one that it is in front of.
func TestLoopsAreThoseOfSimd(t *testing.T) {
	none := func(f func(r room)) func(room) float64 { return func(r room) float64 { f(r); return 0 } }
	for name, tt := range map[string]struct{ got, want func(r room) float64 }{
		"Add":    {none(func(r room) { vector.Add(r[0], r[1], r[2]) }), none(func(r room) { simd.Add(r[0], r[1], r[2]) })},
		"Mul":    {none(func(r room) { vector.Mul(r[0], r[1], r[2]) }), none(func(r room) { simd.Mul(r[0], r[1], r[2]) })},
		"MulAdd": {none(func(r room) { vector.MulAdd(r[0], r[1], r[2]) }), none(func(r room) { simd.MulAdd(r[0], r[1], r[2]) })},
		"Scale":  {none(func(r room) { vector.Scale(r[0], r[1], 1.1) }), none(func(r room) { simd.Scale(r[0], r[1], 1.1) })},
		"Axpy":   {none(func(r room) { vector.Axpy(1.1, r[0], r[1]) }), none(func(r room) { simd.Axpy(1.1, r[0], r[1]) })},
		"Dot": {func(r room) float64 { return float64(vector.Dot(r[0], r[1])) },
			func(r room) float64 { return float64(simd.Dot(r[0], r[1])) }},
		"Dot3": {func(r room) float64 { return float64(vector.Dot3(r[0], r[1], r[2])) },
			func(r room) float64 { return float64(simd.Dot3(r[0], r[1], r[2])) }},
		"SumSquares": {func(r room) float64 { return vector.SumSquares(r[0]) }, func(r room) float64 { return simd.SumSquares(r[0]) }},
		"Max":        {func(r room) float64 { return float64(vector.Max(r[0])) }, func(r room) float64 { return float64(simd.Max(r[0])) }},
		"ExpSum": {func(r room) float64 { return vector.ExpSum(r[0], r[1], 0.9, 1.2) },
			func(r room) float64 { return simd.ExpSum(r[0], r[1], 0.9, 1.2) }},
		"Sigmoid": {none(func(r room) { vector.Sigmoid(r[0], r[1]) }), none(func(r room) { simd.Sigmoid(r[0], r[1]) })},
		"SoftmaxGrad": {none(func(r room) { vector.SoftmaxGrad(r[0], r[1], r[2], 0.3, 0.7) }),
			none(func(r room) { simd.SoftmaxGrad(r[0], r[1], r[2], 0.3, 0.7) })},
		"Prefetch": {none(func(r room) { vector.Prefetch(r[0]) }), none(func(room) {})},
	} {
		for _, n := range sizes {
			got, want := newRoom(n), newRoom(n)
			if g, w := tt.got(got), tt.want(want); math.Float64bits(g) != math.Float64bits(w) {
				t.Errorf("%s of %d elements is %v, want %v", name, n, g, w)
			}
			sameRoom(t, fmt.Sprintf("%s of %d elements", name, n), got, want)
		}
	}
}

// TestStreamedLoopsAreThoseOfSimd compares what is streamed and what is not with the
// functions of simd that never stream.
func TestStreamedLoopsAreThoseOfSimd(t *testing.T) {
	half := func(x []float32) []float32 { return x[:len(x)/2] }
	for name, tt := range map[string]struct {
		got  func(s vector.Stream, r room)
		want func(r room)
	}{
		"ScaleMul": {func(s vector.Stream, r room) { s.ScaleMul(r[0], r[1], r[2], 1.1) }, func(r room) { simd.Stream(false).ScaleMul(r[0], r[1], r[2], 1.1) }},
		"NormGrad": {func(s vector.Stream, r room) { s.NormGrad(r[0], r[1], r[2], r[3], r[4], 1.1, 0.2) },
			func(r room) { simd.Stream(false).NormGrad(r[0], r[1], r[2], r[3], r[4], 1.1, 0.2) }},
		"RotateHeads": {func(s vector.Stream, r room) { s.RotateHeads(r[0], r[1], half(r[2]), half(r[3]), max(1, len(r[0]))) },
			func(r room) {
				n := len(r[0]) / 2
				simd.Stream(false).RotateHalves(r[0][:n], r[0][n:2*n], r[1][:n], r[1][n:2*n], r[2][:n], r[3][:n])
			}},
		"RotatePairs": {func(s vector.Stream, r room) {
			n := len(r[0]) / 2
			s.RotatePairs(r[0][:2*n], r[1][:2*n], half(r[2]), half(r[3]))
		}, func(r room) {
			n := len(r[0]) / 2
			simd.Stream(false).RotatePairs(r[0][:2*n], r[1][:2*n], r[2][:n], r[3][:n])
		}},
		"SwiGLU": {func(s vector.Stream, r room) { s.SwiGLU(r[0], r[1], r[2]) }, func(r room) { simd.Stream(false).SwiGLU(r[0], r[1], r[2]) }},
		"SwiGLUGrad": {func(s vector.Stream, r room) { s.SwiGLUGrad(r[0], r[1], r[2], r[3], r[4]) },
			func(r room) { simd.Stream(false).SwiGLUGrad(r[0], r[1], r[2], r[3], r[4]) }},
	} {
		for _, n := range sizes {
			for _, s := range []vector.Stream{false, true} {
				got, want := newRoom(n), newRoom(n)
				vector.Parallel(1, 1, func(int, int) { tt.got(s, got) }) // after which all is visible
				tt.want(want)
				sameRoom(t, fmt.Sprintf("%s of %d elements, streamed %v", name, n, s), got, want)
			}
		}
	}
	for _, bytes := range []int64{0, 64<<20 - 1, 64 << 20} {
		if got, want := bool(vector.StreamFor(bytes)), bool(simd.StreamFor(bytes)); got != want || want != (bytes >= 64<<20) {
			t.Errorf("%d bytes are streamed: %v, want %v", bytes, got, want)
		}
	}
}

func sameRoom(t *testing.T, what string, got, want room) {
	t.Helper()
	for i := range got {
		sameBits(t, fmt.Sprintf("%s: slice %d", what, i), got[i], want[i])
	}
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for j := range want {
		if math.Float32bits(got[j]) != math.Float32bits(want[j]) {
			t.Errorf("%s: element %d is %v, want %v", what, j, got[j], want[j])
			return
		}
	}
}

// TestStorageIsThatOfCore: the plain loops of core and the fast ones have the same bits.
func TestStorageIsThatOfCore(t *testing.T) {
	v := append(newRoom(1000)[0], float32(math.Inf(1)), -65520, 1e-7, 0)
	for _, d := range []core.DType{core.Float32, core.BFloat16, core.Float16, core.Float64} {
		fast, plain := core.NewTensor(d, len(v)+3), core.NewTensor(d, len(v)+3)
		vector.Store(fast, v, 3)
		plain.Store(v, 3)
		if !slices.Equal(fast.Data, plain.Data) {
			t.Errorf("%s is stored otherwise than by core", d)
		}
		got, want, rounded := make([]float32, len(v)), make([]float32, len(v)), slices.Clone(v)
		vector.Load(got, fast, 3)
		plain.Load(want, 3)
		sameBits(t, fmt.Sprintf("Load from %s", d), got, want)
		bits := make([]uint16, len(v))
		vector.Round(rounded, d, bits)
		if d != core.Float64 {
			sameBits(t, fmt.Sprintf("Round to %s, and Store and Load", d), rounded, want)
		}
	}
}

func TestGrowKeepsWhatFits(t *testing.T) {
	var buf []float32
	a := vector.Grow(&buf, 10)
	a[3] = 7
	if b := vector.Grow(&buf, 4); len(b) != 4 || &b[0] != &a[0] || b[3] != 7 {
		t.Error("room that was large enough was not used again")
	}
	if c := vector.Grow(&buf, 11); len(c) != 11 || cap(buf) != 11 {
		t.Errorf("%d elements of %d, want 11 of 11", len(c), cap(buf))
	}
}

// TestParallelCoversEveryElementOnce for any number of threads.
func TestParallelCoversEveryElementOnce(t *testing.T) {
	if vector.Threads() != simd.Threads() {
		t.Errorf("%d threads, want %d", vector.Threads(), simd.Threads())
	}
	seen := make([]int, 10000)
	vector.Parallel(len(seen), 16, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			seen[i]++
		}
	})
	if i := slices.IndexFunc(seen, func(n int) bool { return n != 1 }); i >= 0 {
		t.Errorf("element %d was covered %d times", i, seen[i])
	}
}
