package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestStripsAgreeWithFloat64Sums multiplies with all and with parts of the panels. What
// lies beside an operand, and beside the result, is NaN or the end of memory.
func TestStripsAgreeWithFloat64Sums(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 3))
		var p Panels
		for _, s := range sizes() {
			m, n, k := s[0], s[1], s[2]
			for form := range 4 {
				transA, transB := form&1 > 0, form&2 > 0
				b := operand(t, rng, k, n, 3, transB)
				p.Pack(k, n, b.Data, b.Stride, transB)
				k0, n0 := k/3, PanelStart(n/3)
				for _, part := range [][4]int{{0, k, 0, n}, {k0, k - k0, n0, n - n/4}, {0, k, n0, PanelEnd(n)}} {
					strip := Strip{M: m, K0: part[0], K1: part[1], N0: part[2], N1: part[3], TransA: transA}
					checkStrip(t, rng, &p, strip, b, transB)
				}
			}
		}
	})
}

// checkStrip multiplies with a left operand of its own, into a result and to add to it.
func checkStrip(t *testing.T, rng *rand.Rand, p *Panels, s Strip, b Matrix, transB bool) {
	t.Helper()
	k, n := s.K1-s.K0, s.N1-s.N0
	a := operand(t, rng, s.M, k, 2, s.TransA)
	s.A, s.StrideA, s.StrideC = a.Data, a.Stride, n+2
	limit := float64(k+2) * float64(k+1) * 0x1p-24
	first := s.K0*b.Stride + s.N0
	if transB {
		first = s.N0*b.Stride + s.K0
	}
	inside := min(n, p.n-s.N0) // columns, the others are undefined
	sums := products(s.M, inside, k, a, s.TransA, Matrix{Data: b.Data[min(first, len(b.Data)):], Stride: b.Stride}, transB)
	for _, s.Accumulate = range []bool{false, true} {
		s.C = guarded(t, random(rng, s.M*(n+2)-2))
		before := slices.Clone(s.C)
		p.Multiply(s)
		for e, got := range s.C {
			i, j := e/(n+2), e%(n+2)
			want := float64(before[e])
			if j >= inside && j < n {
				continue
			}
			if j < n {
				if !s.Accumulate {
					want = 0
				}
				want += sums[i*inside+j]
			}
			if !(math.Abs(float64(got)-want) <= limit) {
				t.Fatalf("%dx%d panels, %d rows, [%d:%d,%d:%d] transA %v transB %v accumulate %v: c[%d,%d] = %v, want %v",
					p.k, p.n, s.M, s.K0, s.K1, s.N0, s.N1, s.TransA, transB, s.Accumulate, i, j, got, want)
			}
		}
	}
}

func TestStripsThatAreNoPartOfThePanelsPanic(t *testing.T) {
	var p Panels
	p.Pack(3, 40, make([]float32, 120), 40, false)
	good := Strip{M: 2, K1: 3, N1: 40, A: make([]float32, 6), StrideA: 3, C: make([]float32, 80), StrideC: 40}
	p.Multiply(good)
	for name, edit := range map[string]func(s *Strip){
		"rows past the end":    func(s *Strip) { s.K1 = 4 },
		"columns past the end": func(s *Strip) { s.N1 = 41 },
		"no start of a panel":  func(s *Strip) { s.N0 = 1 },
		"turned round":         func(s *Strip) { s.K0, s.K1 = 2, 1 },
		"a short":              func(s *Strip) { s.A = s.A[:5] },
		"c short":              func(s *Strip) { s.C = s.C[:79] },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			s := good
			edit(&s)
			p.Multiply(s)
		})
	}
}

// BenchmarkStrips has the products of attention with heads of 64: the scores of a few
// queries, their weighted sum of values, and the share of a block of queries in the
// gradient of keys.
func BenchmarkStrips(b *testing.B) {
	for _, s := range []struct {
		name    string
		m, n, k int
		transA  bool
	}{{"scores", 14, 512, 64, false}, {"sum", 14, 64, 512, false}, {"gradient", 256, 64, 112, true}} {
		eachVariant(b, func(b *testing.B) {
			var p Panels
			p.Pack(s.k, s.n, make([]float32, s.k*s.n), s.n, false)
			stride := s.k + 16
			if s.transA {
				stride = s.m + 16
			}
			strip := Strip{M: s.m, K1: s.k, N1: s.n, A: make([]float32, max(s.m, s.k)*stride), StrideA: stride,
				TransA: s.transA,
				C:      make([]float32, s.m*s.n), StrideC: s.n, Accumulate: s.transA}
			for b.Loop() {
				p.Multiply(strip)
			}
			b.ReportMetric(2*float64(s.m*s.n*s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		}, s.name)
	}
}
