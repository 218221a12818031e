package simd

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A vectorOp is an exported function and what it computes, element by element, in
// float64.
type vectorOp struct {
	name   string
	slices int // arguments, those that it writes first
	out    int
	// run calls the function and returns its sum, if it has one.
	run func(s [][]float32) float64
	// want gets one element of each slice and returns what is written for it, or, where
	// nothing is, what it adds to the sum.
	want func(e []float64) []float64
	// units is how many roundings of numbers of the given size the result may be off.
	units float64
	size  func(e []float64) float64
	bits  bool // every variant gives the bits of the generic one
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func largest(e []float64) float64 {
	m := 1.0
	for _, v := range e {
		m *= math.Max(1, math.Abs(v))
	}
	return m
}

var step = AdamWStep{Scale: 0.5, Keep: 0.99, Beta1: 0.9, New1: 0.1, Beta2: 0.999, New2: 0.001, Step: 0.01,
	Eps: 1e-8}

var vectorOps = append(cachedOps, streamedOps()...)

var cachedOps = []vectorOp{
	{"Add", 3, 1, func(s [][]float32) float64 { Add(s[0], s[1], s[2]); return 0 },
		func(e []float64) []float64 { return []float64{e[1] + e[2]} }, 1, largest, true},
	{"Mul", 3, 1, func(s [][]float32) float64 { Mul(s[0], s[1], s[2]); return 0 },
		func(e []float64) []float64 { return []float64{e[1] * e[2]} }, 1, largest, true},
	{"MulAdd", 3, 1, func(s [][]float32) float64 { MulAdd(s[0], s[1], s[2]); return 0 },
		func(e []float64) []float64 { return []float64{e[0] + e[1]*e[2]} }, 2, largest, true},
	{"Scale", 2, 1, func(s [][]float32) float64 { Scale(s[0], s[1], 0.3); return 0 },
		func(e []float64) []float64 { return []float64{float64(float32(0.3)) * e[1]} }, 1, largest, true},
	{"Axpy", 2, 1, func(s [][]float32) float64 { Axpy(0.3, s[1], s[0]); return 0 },
		func(e []float64) []float64 { return []float64{e[0] + float64(float32(0.3))*e[1]} }, 2, largest, true},
	{"Dot", 2, 0, func(s [][]float32) float64 { return float64(Dot(s[0], s[1])) },
		func(e []float64) []float64 { return []float64{e[0] * e[1]} }, 1, largest, false},
	{"Dot3", 3, 0, func(s [][]float32) float64 { return float64(Dot3(s[0], s[1], s[2])) },
		func(e []float64) []float64 { return []float64{e[0] * e[1] * e[2]} }, 2, largest, false},
	{"SumSquares", 1, 0, func(s [][]float32) float64 { return SumSquares(s[0]) },
		func(e []float64) []float64 { return []float64{e[0] * e[0]} }, 0x1p-28, largest, false},
	{"DotWide", 2, 0, func(s [][]float32) float64 { return DotWide(s[0], s[1]) },
		func(e []float64) []float64 { return []float64{e[0] * e[1]} }, 0x1p-28, largest, false},
	{"Exp", 2, 1, func(s [][]float32) float64 { ExpSum(s[0], s[1], 1, 0); return 0 },
		func(e []float64) []float64 { return []float64{math.Exp(e[1])} }, 4,
		func(e []float64) float64 { return math.Exp(e[1]) }, false},
	{"ExpSum", 2, 1, func(s [][]float32) float64 { return ExpSum(s[0], s[1], 0.5, 3) },
		func(e []float64) []float64 { return []float64{math.Exp(0.5*e[1] - 3)} }, 16,
		func(e []float64) float64 { return math.Exp(0.5*e[1] - 3) }, false},
	{"SoftmaxGrad", 3, 1, func(s [][]float32) float64 { SoftmaxGrad(s[0], s[1], s[2], 0.5, 0.25); return 0 },
		func(e []float64) []float64 { return []float64{e[1] * (e[2] - 0.5) * 0.25} }, 3, largest, true},
	{"Sigmoid", 2, 1, func(s [][]float32) float64 { Sigmoid(s[0], s[1]); return 0 },
		func(e []float64) []float64 { return []float64{logistic(e[1])} }, 4,
		func(e []float64) float64 { return logistic(e[1]) }, false},
	{"SiLU", 2, 1, func(s [][]float32) float64 { SiLU(s[0], s[1]); return 0 },
		func(e []float64) []float64 { return []float64{e[1] * logistic(e[1])} }, 6,
		func(e []float64) float64 { return math.Abs(e[1]) * logistic(e[1]) }, false},
	{"SiLUGrad", 3, 1, func(s [][]float32) float64 { SiLUGrad(s[0], s[1], s[2]); return 0 },
		func(e []float64) []float64 {
			g := logistic(e[2])
			return []float64{e[1] * (g + e[2]*g*(1-g))}
		}, 8, largest, false},
	{"SwiGLU", 3, 1, func(s [][]float32) float64 { Stream(false).SwiGLU(s[0], s[1], s[2]); return 0 },
		func(e []float64) []float64 { return []float64{e[1] * logistic(e[1]) * e[2]} }, 8, largest, false},
	{"SwiGLUGrad", 5, 2, func(s [][]float32) float64 { Stream(false).SwiGLUGrad(s[0], s[1], s[2], s[3], s[4]); return 0 },
		func(e []float64) []float64 {
			g, d, u := logistic(e[3]), e[2], e[4]
			return []float64{d * u * (g + e[3]*g*(1-g)), d * e[3] * g}
		}, 8, largest, false},
	{"ScaleMul", 3, 1, func(s [][]float32) float64 { Stream(false).ScaleMul(s[0], s[1], s[2], 0.25); return 0 },
		func(e []float64) []float64 { return []float64{0.25 * e[1] * e[2]} }, 2, largest, true},
	{"NormGrad", 5, 2, func(s [][]float32) float64 { Stream(false).NormGrad(s[0], s[1], s[2], s[3], s[4], 0.25, 0.5); return 0 },
		func(e []float64) []float64 {
			n := 0.25 * e[3]
			return []float64{0.25 * (e[2]*e[4] - n*0.5), e[1] + e[2]*n}
		}, 3, largest, true},
	{"RotateHalves", 6, 2, func(s [][]float32) float64 { Stream(false).RotateHalves(s[0], s[1], s[2], s[3], s[4], s[5]); return 0 },
		func(e []float64) []float64 { return []float64{e[2]*e[4] - e[3]*e[5], e[3]*e[4] + e[2]*e[5]} }, 3, largest, true},
	{"AdamW", 4, 3, func(s [][]float32) float64 {
		for i, v := range s[2] {
			s[2][i] = max(v, -v)
		}
		step.Update(s[0], s[3], s[1], s[2])
		return 0
	}, func(e []float64) []float64 {
		x := float64(step.Scale) * e[3]
		m := float64(step.Beta1)*e[1] + float64(step.New1)*x
		v := float64(step.Beta2)*math.Abs(e[2]) + float64(step.New2)*x*x
		return []float64{float64(step.Keep)*e[0] - float64(step.Step)*m/(math.Sqrt(v)+float64(step.Eps)),
			m, v}
	}, 4, largest, true},
}

// TestVectorsAgreeWithFloat64 runs every function in every variant on every length up
// to some vectors and a rest. Slices end where memory ends, or at odd places; what lies
// around the ones that are written must stay.
func TestVectorsAgreeWithFloat64(t *testing.T) {
	const room = 256
	buffers := make([][]float32, 6)
	for i := range buffers {
		buffers[i] = tail[float32](guardedBytes(t, 4*room), room)
	}
	for _, op := range vectorOps {
		eachVariant(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(9, 9))
			values := random(rng, 16*room) // to make all anew takes most of the time of an emulator
			for n := range 130 {
				for shift := range 3 {
					s, before := make([][]float32, op.slices), make([][]float32, op.slices)
					for i := range s {
						copy(buffers[i], values[rng.IntN(15*room):])
						end := room - i*shift
						s[i] = buffers[i][end-n : end]
						before[i] = slices.Clone(buffers[i])
					}
					op.check(t, buffers, before, s, n)
				}
			}
		}, op.name)
	}
}

// check runs the function once and compares; before holds the buffers as they were.
func (op *vectorOp) check(t *testing.T, buffers, before, s [][]float32, n int) {
	t.Helper()
	sum := op.run(s)
	start := make([]int, op.slices)
	for i := range s {
		start[i] = cap(buffers[i]) - cap(s[i])
		for j, v := range buffers[i][:len(before[i])] {
			if (i >= op.out || j < start[i] || j >= start[i]+n) && v != before[i][j] {
				t.Fatalf("%s: length %d: slice %d, element %d, which is not its to write, changed", op.name, n, i, j-start[i])
			}
		}
	}
	var wantSum, slack float64
	e := make([]float64, op.slices)
	for j := range n {
		for i := range e {
			e[i] = float64(before[i][start[i]+j])
		}
		want, unit := op.want(e), op.units*0x1p-24*op.size(e)
		for i := range op.out {
			if got := float64(s[i][j]); !(math.Abs(got-want[i]) <= unit) {
				t.Fatalf("%s: length %d: output %d, element %d is %v, want %v from %v", op.name, n, i, j, got, want[i], e)
			}
		}
		wantSum += want[0]
		slack += unit * (1 + float64(n)/4)
	}
	if (op.out == 0 || op.name == "ExpSum") && !(math.Abs(sum-wantSum) <= slack) {
		t.Fatalf("%s: length %d: sum %v, want %v", op.name, n, sum, wantSum)
	}
}

// fixedBits are checksums of what the functions with fixed bits write, on every machine.
var fixedBits = map[string]uint64{
	"Add": 0xabe3261b73737614, "Mul": 0xea5a8635e10c0009, "MulAdd": 0x28ebebea3c0e067d, "Scale": 0xd20c117579803738,
	"Axpy": 0x6e8e7ddeed919cd2, "SoftmaxGrad": 0x536648dcaa9a3a9b, "ScaleMul": 0x8dfc28b1b0b07f38,
	"NormGrad":     0xf5e8081dd341c0e5,
	"RotateHalves": 0xd73d8e92e5d2cf09, "AdamW": 0x3f53c71eead07d0f,
}

// TestVariantsGiveTheSameBits covers the functions that add and multiply in one order
// and round every step, whoever compiles them.
func TestVariantsGiveTheSameBits(t *testing.T) {
	for _, op := range vectorOps {
		if !op.bits {
			continue
		}
		eachVariant(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(4, 2))
			var s [][]float32
			for range op.slices {
				s = append(s, random(rng, 1003))
			}
			op.run(s)
			sum := fnv.New64a()
			for _, x := range s[:op.out] {
				if err := binary.Write(sum, binary.LittleEndian, x); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := sum.Sum64(), fixedBits[strings.TrimSuffix(op.name, "Streamed")]; got != want {
				t.Errorf("%s: the checksum of what it writes is %#x, want %#x", op.name, got, want)
			}
		}, op.name)
	}
}

// TestRotatePairsIsRotateHalvesInAnotherOrder compares the two bit by bit, on slices
// that end where memory ends, in place and not.
func TestRotatePairsIsRotateHalvesInAnotherOrder(t *testing.T) {
	const room = 130
	buffers := make([][]byte, 5)
	for i := range buffers {
		buffers[i] = guardedBytes(t, 8*room)
	}
	rng := rand.New(rand.NewPCG(6, 6))
	eachVariant(t, func(t *testing.T) {
		for n := range room {
			x, dst := tail[float32](buffers[0], 2*n), tail[float32](buffers[1], 2*n)
			cos, sin := tail[float32](buffers[2], n), tail[float32](buffers[3], n)
			copy(x, random(rng, 2*n))
			copy(cos, random(rng, n))
			copy(sin, random(rng, n))
			a, b := make([]float32, n), make([]float32, n)
			for i := range n {
				a[i], b[i] = x[2*i], x[2*i+1]
			}
			Stream(false).RotateHalves(a, b, a, b, cos, sin)
			streamed := tail[float32](buffers[4], 2*n)
			Stream(true).RotatePairs(streamed, x, cos, sin)
			Stream(false).RotatePairs(dst, x, cos, sin)
			Stream(false).RotatePairs(x, x, cos, sin)
			for i := range n {
				if dst[2*i] != a[i] || dst[2*i+1] != b[i] {
					t.Fatalf("length %d, pair %d: (%v, %v), want (%v, %v)", n, i, dst[2*i], dst[2*i+1], a[i], b[i])
				}
			}
			if !slices.Equal(x, dst) {
				t.Fatalf("length %d: in place it gives other bits", n)
			}
			if !slices.Equal(streamed, dst) {
				t.Fatalf("length %d: streamed, it gives other bits", n)
			}
		}
	})
}

func TestMaxFindsTheLargestAtEveryPlace(t *testing.T) {
	buffer := guardedBytes(t, 4*256)
	eachVariant(t, func(t *testing.T) {
		if got := Max(nil); got != float32(math.Inf(-1)) {
			t.Errorf("of nothing: %v", got)
		}
		for n := 1; n <= 129; n++ {
			x := tail[float32](buffer, n)
			for at := range x {
				for i := range x {
					x[i] = -5 - float32(i)
				}
				x[at] = -3
				if got := Max(x); got != -3 {
					t.Fatalf("length %d, place %d: %v", n, at, got)
				}
			}
		}
	})
}

// TestDotOfManyStaysExact adds a million ones, of which a plain float32 sum of
// products 1.1*1.1 would lose the third digit.
func TestDotOfManyStaysExact(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		a := make([]float32, 1<<20)
		for i := range a {
			a[i] = 1.1
		}
		want := float64(len(a)) * float64(a[0]) * float64(a[0])
		if got := float64(Dot(a, a)); !(math.Abs(got-want) <= 1e-5*want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// TestSumSquaresOfHugeNumbersIsFinite squares what float32 cannot hold the square of.
func TestSumSquaresOfHugeNumbersIsFinite(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		if got := SumSquares([]float32{0x1p100, 0x1p100}); got != 0x1p201 {
			t.Errorf("%v, want 2^201", got)
		}
	})
}

// TestExpIsWithinTwoUnits walks through the whole range in small steps.
func TestExpIsWithinTwoUnits(t *testing.T) {
	step := float32(0.00037)
	if testing.Short() && runtime.GOARCH == "amd64" {
		step *= 10 // an emulator takes long; the instructions are those that a real processor has been given all values of
	}
	eachVariant(t, func(t *testing.T) {
		x, got := make([]float32, 1024), make([]float32, 1024)
		for v := float32(-105); v < 90; {
			for i := range x {
				x[i] = v
				v += step
			}
			ExpSum(got, x, 1, 0)
			for i, g := range got {
				exact := math.Exp(float64(x[i]))
				want := float32(exact)
				ulp := float64(math.Nextafter32(want, float32(math.Inf(1)))) - float64(want)
				if g != want && !(math.Abs(float64(g)-exact) <= 2*ulp) {
					t.Fatalf("exp(%v) = %v, want %v", x[i], g, want)
				}
			}
		}
	})
}

func TestSigmoidAndExpAtTheEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	x := []float32{0, inf, -inf, 200, -200, 105, -105, nan}
	eachVariant(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			f    func(dst, x []float32)
			want []float32
		}{
			"Sigmoid": {Sigmoid, []float32{0.5, 1, 0, 1, 0, 1, 0, nan}},
			"Exp":     {func(dst, x []float32) { ExpSum(dst, x, 1, 0) }, []float32{1, inf, 0, inf, 0, inf, 0, nan}},
			"SiLU":    {SiLU, []float32{0, inf, nan, 200, 0, 105, 0, nan}},
		} {
			for n := range len(x) { // in a whole vector and in the rest of one
				y := make([]float32, n+1+3*len(x))
				copy(y, x[:n+1])
				copy(y[len(y)-len(x):], x)
				c.f(y, y)
				for i, v := range append(slices.Clone(y[:n+1]), y[len(y)-len(x):]...) {
					w := c.want[i%(n+1)]
					if i > n {
						w = c.want[i-n-1]
					}
					if v != w && (v == v || w == w) {
						t.Errorf("%s, element %d of %d: %v, want %v", name, i, n, v, w)
					}
				}
			}
		}
	})
}

func TestNaNSpoilsASoftmax(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		for n := 1; n < 70; n++ {
			x := make([]float32, n)
			x[n/2] = float32(math.NaN())
			if sum := ExpSum(x, x, 1, 0); sum == sum {
				t.Errorf("length %d: the sum is %v, want NaN", n, sum)
			}
		}
	})
}

func TestVectorLengthsMustAgree(t *testing.T) {
	a, b, h := make([]float32, 2), make([]float32, 3), make([]uint16, 4)
	for name, f := range map[string]func(){
		"Dot": func() { Dot(a, b) }, "Axpy": func() { Axpy(1, a, b) }, "Sigmoid": func() { Sigmoid(a, b) },
		"SwiGLUGrad": func() { Stream(false).SwiGLUGrad(a, a, a, a, b) }, "AdamW": func() { step.Update(a, a, b, a) },
		"Float32ToBFloat16": func() { Float32ToBFloat16(h, a) },
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

// TestAddProductsHasTheSameBitsEverywhere compares with the loop in Go, as a fused addition of an exact product has no
// rounding of its own.
func TestAddProductsHasTheSameBitsEverywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	eachVariant(t, func(t *testing.T) {
		for n := range 70 {
			a, b, sum := guarded(t, random(rng, n)), guarded(t, random(rng, n)), guarded(t, make([]float64, n))
			want := make([]float64, n)
			for range 3 {
				AddProducts(sum, a, b)
				for i := range want {
					want[i] += float64(a[i]) * float64(b[i])
				}
			}
			if !slices.Equal(sum, want) {
				t.Fatalf("length %d: %v, want %v", n, sum, want)
			}
		}
	})
}
