package simd

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// TestTilesTakeEveryStorage compares operands in other types, on either side or on both, with the same
// numbers in float32: of a bfloat16 the further parts would be zero.
func TestTilesTakeEveryStorage(t *testing.T) {
	needTiles(t)
	rng := rand.New(rand.NewPCG(6, 9))
	for name, narrow := range narrowings(t) {
		for _, f := range forms {
			for _, s := range brief([][3]int{{50, 100, 300}, {15, 33, 17}, {33, 15, 600}, {300, 290, 400}, {1, 1, 1}}) {
				m, n, k := s[0], s[1], s[2]
				a, b := operand(t, rng, m, k, 1, f.transA), operand(t, rng, k, n, 2, f.transB)
				narrowA, narrowB := narrow(a), narrow(b)
				p := Product{M: m, N: n, K: k, A: a, B: b, TransA: f.transA, TransB: f.transB, C: make([]float32, m*n), StrideC: n}
				want := onTiles(p)
				for _, q := range [][2]Matrix{{a, narrowB}, {narrowA, b}, {narrowA, narrowB}} {
					p.A, p.B = q[0], q[1]
					if !slices.Equal(onTiles(p), want) {
						t.Errorf("%s %s %v: not the product of the same numbers in float32", name, f.name, s)
					}
				}
			}
		}
	}
}

func TestFinishOnTilesSeesEveryElementOnceWhenItIsComplete(t *testing.T) {
	needTiles(t)
	defer SetThreads(0)
	rng := rand.New(rand.NewPCG(2, 9))
	for _, s := range [][3]int{{130, 300, 1100}, {15, 33, 400}, {1, 1, 1}} {
		m, n, k := s[0], s[1], s[2]
		bias := random(rng, n)
		p := Product{M: m, N: n, K: k, A: operand(t, rng, m, k, 0, false), B: operand(t, rng, k, n, 0, false),
			C: random(rng, m*n), StrideC: n, Accumulate: true}
		want := onTiles(p)
		for i := range m {
			Add(want[i*n:][:n], want[i*n:][:n], bias)
		}
		p.Finish = func(c []float32, _, col int) { Add(c, c, bias[col:][:len(c)]) }
		for _, threads := range []int{1, 3} {
			SetThreads(threads)
			if !slices.Equal(onTiles(p), want) {
				t.Errorf("%v, %d threads: not the product plus the bias", s, threads)
			}
		}
	}
}

// TestTilesHoldWhatTheyCannotCompute has numbers that the units have other rules for, and such whose parts
// would be. What is not finite has to be where Multiply has it.
func TestTilesHoldWhatTheyCannotCompute(t *testing.T) {
	needTiles(t)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	const m, n, k = 70, 75, 90
	for name, edit := range map[string]func(rng *rand.Rand, a, b, c []float32){
		"NaN on the left":   func(_ *rand.Rand, a, _, _ []float32) { a[40*k+7] = nan },
		"NaN on the right":  func(_ *rand.Rand, _, b, _ []float32) { b[7*n+40] = nan },
		"infinities":        func(_ *rand.Rand, a, b, _ []float32) { a[3], b[40*n+74], a[69*k+40] = inf, -inf, -inf },
		"infinity and zero": func(_ *rand.Rand, a, b, _ []float32) { a[5*k+5] = inf; clear(b[5*n:][:n]) },
		"NaN in c":          func(_ *rand.Rand, _, _, c []float32) { c[20], c[30] = nan, inf },
		"the largest number": func(_ *rand.Rand, a, b, _ []float32) {
			a[0], a[33*k] = math.MaxFloat32, -math.MaxFloat32
			scale(b, 0x1p-40)
		},
		"sums that overflow":       func(_ *rand.Rand, a, b, _ []float32) { scale(a, 0x1p66); scale(b, 0x1p62) },
		"sums that almost do":      func(_ *rand.Rand, a, b, _ []float32) { scale(a, 0x1p60); scale(b, 0x1p57) },
		"a subnormal number":       func(_ *rand.Rand, a, b, c []float32) { a[k] = 0x1p-140; scale(b, 0x1p100); clear(c) },
		"parts below the normal":   func(_ *rand.Rand, a, b, c []float32) { scale(a, 0x1p-112); scale(b, 0x1p100); clear(c) },
		"products below":           func(_ *rand.Rand, a, b, c []float32) { scale(a, 0x1p-60); scale(b, 0x1p-55); clear(c) },
		"nothing left of products": func(_ *rand.Rand, a, b, c []float32) { scale(a, 0x1p-74); scale(b, 0x1p-73); clear(c) },
		"subnormal sums":           func(_ *rand.Rand, a, _, c []float32) { clear(a); scale(c, 0x1p-130) },
		"nothing but zeros":        func(_ *rand.Rand, a, b, _ []float32) { clear(a); clear(b) },
		"negative zeros":           func(_ *rand.Rand, a, _, c []float32) { clear(c); scale(a, -1/inf) },
		"rows and columns of any size": func(rng *rand.Rand, a, b, _ []float32) {
			for i := range m {
				scale(a[i*k:][:k], float32(math.Ldexp(1, rng.IntN(120)-60)))
			}
			for i := range b {
				b[i] *= float32(math.Ldexp(1, i%n-40))
			}
		},
		"elements of any size": func(rng *rand.Rand, a, b, _ []float32) {
			for i := range a {
				a[i] *= float32(math.Ldexp(1, rng.IntN(250)-140))
			}
			for i := range b {
				b[i] *= float32(math.Ldexp(1, rng.IntN(20)-10))
			}
		},
		"large ones beside zeros": func(_ *rand.Rand, a, b, _ []float32) {
			for i := range m {
				a[i*k] = 0x1p100
			}
			clear(b[:n])
			scale(b[n:], 0x1p-20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(8, 9))
			p := Product{M: m, N: n, K: k, A: Matrix{Data: random(rng, m*k), Stride: k},
				B: Matrix{Data: random(rng, k*n), Stride: n}, C: random(rng, m*n), StrideC: n, Accumulate: true}
			edit(rng, p.A.Data, p.B.Data, p.C)
			before := slices.Clone(p.C)
			ordinary := p
			ordinary.C = slices.Clone(p.C)
			Multiply(ordinary)
			if e := tileError(&ordinary, before); e != "" && !slices.ContainsFunc(ordinary.C, notFinite) {
				t.Fatalf("the ordinary product: %s", e)
			}
			p.C = onTiles(p)
			for i, want := range ordinary.C {
				got := p.C[i]
				if (notFinite(want) || notFinite(got)) && !(got == want || got != got && want != want) {
					t.Fatalf("c[%d,%d] = %v, and %v of Multiply", i/n, i%n, got, want)
				}
				if notFinite(want) {
					p.C[i], before[i] = 0, 0
				}
			}
			if !slices.ContainsFunc(ordinary.C, notFinite) {
				if e := tileError(&p, before); e != "" {
					t.Error(e)
				}
			}
		})
	}
}

func notFinite(x float32) bool { return x-x != 0 }

func scale(x []float32, s float32) { Scale(x, x, s) }

// TestTilesOutliveSignals has the operating system and Go's runtime interrupt products, and move their
// goroutines between threads, as often as they can.
func TestTilesOutliveSignals(t *testing.T) {
	needTiles(t)
	rng := rand.New(rand.NewPCG(7, 9))
	p := Product{M: 200, N: 300, K: 500, A: numbers(rng, 200, 500, false), B: numbers(rng, 500, 300, false),
		C: make([]float32, 200*300), StrideC: 300}
	want := onTiles(p)
	var products sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		products.Go(func() {
			for range 40 {
				if !slices.Equal(onTiles(p), want) {
					t.Error("other bits when interrupted")
				}
			}
		})
	}
	go func() {
		products.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return
		default:
			runtime.GC() // which stops every goroutine by a signal
		}
	}
}

// TestPanicsOnTilesReachTheCaller has the second of two steps fail, for which others wait.
func TestPanicsOnTilesReachTheCaller(t *testing.T) {
	needTiles(t)
	SetThreads(3)
	defer SetThreads(0)
	rng := rand.New(rand.NewPCG(9, 8))
	x := numbers(rng, 300, 1000, false)
	p := Product{M: 300, N: 300, K: 1000, A: x, B: Matrix{Stride: 1000, Load: func(dst []float32, from int) {
		if from >= 200*1000+500 {
			panic("boom")
		}
		copy(dst, x.Data[from:])
	}}, TransB: true, C: make([]float32, 300*300), StrideC: 300}
	for range 20 {
		func() {
			defer func() {
				if r, ok := recover().(*Panic); !ok || r.Value != "boom" {
					t.Fatalf("recovered %v, want the panic of Load", r)
				}
			}()
			multiplyOnTiles([]TileProduct{{Product: p}})
		}()
	}
	p.B = x
	if e := tileError(&Product{M: 300, N: 300, K: 1000, A: x, B: x, TransB: true, C: onTiles(p), StrideC: 300}, p.C); e != "" {
		t.Errorf("after that: %s", e)
	}
}

// TestProductsThatDoNotPayAreOrdinary has some that do, and some that are empty, in one call.
func TestProductsThatDoNotPayAreOrdinary(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	var group []TileProduct
	for _, s := range brief([][3]int{{0, 5, 5}, {5, 0, 5}, {5, 7, 0}, {5, 300, 300}, {300, 300, 3}, {300, 300, 300},
		{128, 512, 256}, {255, 1200, 1000}, {500, 700, 800}}) {
		m, n, k := s[0], s[1], s[2]
		group = append(group, TileProduct{Product: Product{M: m, N: n, K: k, A: numbers(rng, m, k, false),
			B: numbers(rng, k, n, false), C: random(rng, m*n), StrideC: n}})
	}
	group[3].B = Matrix{BFloat16: make([]uint16, 300*300), Stride: 300}
	if !testing.Short() {
		group[5].B = group[3].B
	}
	work := 0.0
	for _, p := range group {
		work += p.work()
	}
	var want [][]float32
	for _, p := range group {
		q := p.Product
		q.C = slices.Clone(q.C)
		if HasTiles() && p.pays(work) {
			want = append(want, onTiles(q))
		} else {
			Multiply(q)
			want = append(want, q.C)
		}
	}
	MultiplyTiles(group...)
	for i, p := range group {
		if !slices.Equal(p.C, want[i]) {
			t.Errorf("product %d of %d by %d by %d", i, p.M, p.K, p.N)
		}
	}
}
