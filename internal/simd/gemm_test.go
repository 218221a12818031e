package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

var forms = []struct {
	name           string
	transA, transB bool
	gemm           func(m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool)
}{
	{"NN", false, false, gemmNN},
	{"NT", false, true, gemmNT},
	{"TN", true, false, gemmTN},
}

// eachVariant runs a test or a benchmark with every implementation that this CPU can
// run, under its name after any others.
func eachVariant[T interface {
	testing.TB
	Run(name string, f func(T)) bool
}](t T, f func(T), names ...string) {
	defer func(v *variant) { active = v }(active)
	for _, v := range variants {
		active = v
		t.Run(strings.Join(append(names, v.name), "/"), f)
	}
}

// guarded returns a copy of x that ends where memory ends.
func guarded[T any](t testing.TB, x []T) []T {
	y := tail[T](guardedBytes(t, len(x)*int(unsafe.Sizeof(*new(T)))), len(x))
	copy(y, x)
	return y
}

// tail views the end of a buffer as n elements.
func tail[T any](buf []byte, n int) []T {
	size := n * int(unsafe.Sizeof(*new(T)))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(buf[len(buf)-size:]))), n)
}

func random(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = rng.Float32()*2 - 1
	}
	return v
}

// operand returns a random matrix with padding after each row; the padding is NaN, so
// that reading it shows. The last row ends where memory ends.
func operand(t testing.TB, rng *rand.Rand, rows, cols, pad int, trans bool) Matrix {
	if trans {
		rows, cols = cols, rows
	}
	x := Matrix{Data: guarded(t, random(rng, max(rows*(cols+pad)-pad, 0))), Stride: cols + pad}
	for r := range rows - 1 {
		for c := cols; c < cols+pad; c++ {
			x.Data[r*x.Stride+c] = float32(math.NaN())
		}
	}
	return x
}

func at(x Matrix, i, j int, trans bool) float64 {
	if trans {
		i, j = j, i
	}
	return float64(x.Data[i*x.Stride+j])
}

// products returns the sums of a's rows with b's columns in float64, [m,n].
func products(m, n, k int, a Matrix, transA bool, b Matrix, transB bool) []float64 {
	rows, columns, c := widened(a, m, k, transA), widened(b, n, k, !transB), make([]float64, m*n)
	for i := range m {
		row, j := rows[i*k:][:k], 0
		for ; j+4 <= n; j += 4 { // at once, as a sum waits for its last term
			c0, c1, c2, c3 := columns[j*k:][:k], columns[(j+1)*k:][:k], columns[(j+2)*k:][:k], columns[(j+3)*k:][:k]
			var s0, s1, s2, s3 float64
			for p, v := range row {
				s0 += v * c0[p]
				s1 += v * c1[p]
				s2 += v * c2[p]
				s3 += v * c3[p]
			}
			c[i*n+j], c[i*n+j+1], c[i*n+j+2], c[i*n+j+3] = s0, s1, s2, s3
		}
		for ; j < n; j++ {
			for p, v := range row {
				c[i*n+j] += v * columns[j*k+p]
			}
		}
	}
	return c
}

// widened returns the elements row by row.
func widened(x Matrix, rows, cols int, trans bool) []float64 {
	w := make([]float64, 0, rows*cols)
	for i := range rows {
		for j := range cols {
			w = append(w, at(x, i, j, trans))
		}
	}
	return w
}

func sizes() [][3]int {
	s := [][3]int{{1, 1, 1}, {1, 7, 300}, {97, 1, 5}, {100, 101, 257}, {3, 200, 513}, {193, 98, 31}, {2, 2, 0},
		{113, 417, 385}, {14, 384, 8}, {29, 801, 17}, {5, 288, 9}, {4, 289, 9}, {15, 320, 3},
		{1, 8, 3}, {7, 104, 385}, {66, 160, 1030}, {131, 264, 20}, {193, 18, 31}, {131, 40, 20}, {13, 60, 64}, {8, 45, 32}}
	for n := 1; n <= 10; n++ {
		s = append(s, [3]int{n, 11 - n, 2*n + 1})
	}
	return brief(s)
}

// brief leaves out large products with -short, as on an emulated processor.
func brief(sizes [][3]int) [][3]int {
	return slices.DeleteFunc(sizes, func(s [3]int) bool { return testing.Short() && s[0]*s[1]*s[2] > 1<<19 })
}

// TestTurnedProductsHaveTheSameBits compares products of few rows with a wide weight, of which the rows are
// packed and the weight is not, with themselves computed as all others are, which Finish makes them.
func TestTurnedProductsHaveTheSameBits(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, s := range brief([][3]int{{1, 8, 3}, {7, 104, 385}, {66, 160, 1030}, {131, 264, 20}, {256, 512, 64}}) {
			m, n, k := s[0], s[1], s[2]
			a, b, c := operand(t, rng, m, k, 3, false), operand(t, rng, k, n, 5, true), random(rng, m*n)
			p := Product{M: m, N: n, K: k, A: a, B: b, TransB: true, C: slices.Clone(c), StrideC: n, Accumulate: true}
			q := p
			q.C, q.Finish = slices.Clone(c), func([]float32, int, int) {}
			if turned, not := p.turned(active.gemm), q.turned(active.gemm); active.gemm.part != nil && !turned.across || not.across {
				t.Fatalf("%v: turned %v, and with Finish %v", s, turned.across, not.across)
			}
			Multiply(p)
			Multiply(q)
			if !slices.Equal(p.C, q.C) {
				t.Errorf("%v: the bits differ", s)
			}
		}
	})
}

// TestPackedPanelsGiveTheBitsOfWhatIsNotPacked, of every way to store the right operand, with a panel that is narrow
// and several steps and strips, also where a product of few rows is turned otherwise. Blocks of rows of the left
// operand find the same panels, whatever they were packed from: more of them than one are in float32 alone.
func TestPackedPanelsGiveTheBitsOfWhatIsNotPacked(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		more := brief([][3]int{{40, 530, 1030}, {FewRows, 700, 600}, {9, 67, 520}, {3, 0, 4}, {3, 4, 0}})
		for _, s := range append(sizes(), more...) {
			for trans := range 2 {
				n, k := s[1], s[2]
				a, b := operand(t, rng, s[0], k, 3, false), operand(t, rng, k, n, 5, trans == 1)
				for name, b := range stored(b) {
					m := s[0]
					if name != "float32" {
						m = min(m, FewRows+4)
					}
					p := Product{M: m, N: n, K: k, A: a, B: b, TransB: trans == 1, C: random(rng, m*n), StrideC: n,
						Accumulate: rng.IntN(2) == 0}
					q := p
					q.C = slices.Clone(p.C)
					room := random(rng, PanelsSize(k, n)+16)
					q.Panels = PackPanels(k, n, b, q.TransB, room[-uintptr(unsafe.Pointer(&room[0]))%64/4:])
					Multiply(p)
					Multiply(q)
					if !slices.Equal(p.C, q.C) {
						t.Errorf("%v, %s, transposed %v: the bits differ", s, name, q.TransB)
					}
				}
			}
		}
	})
}

// stored returns a matrix in every way that operands are stored.
func stored(x Matrix) map[string]Matrix {
	bfloat16, float16 := make([]uint16, len(x.Data)), make([]uint16, len(x.Data))
	Float32ToBFloat16(bfloat16, x.Data)
	Float32ToFloat16(float16, x.Data)
	whole, scale := make([]int8, len(x.Data)), make([]float32, len(x.Data))
	for i, v := range x.Data {
		whole[i], scale[i] = int8(100*v), 0.5+float32(i%3)
	}
	rounded := x
	rounded.Rounded = true
	return map[string]Matrix{"float32": x, "rounded": rounded, "bfloat16": {BFloat16: bfloat16, Stride: x.Stride},
		"float16": {Float16: float16, Stride: x.Stride}, "int8": {Int8: whole, Scale: scale, Stride: x.Stride},
		"loaded": {Load: func(dst []float32, from int) { copy(dst, x.Data[from:]) }, Stride: x.Stride}}
}

func TestPanelsOfAnotherProductAreRefused(t *testing.T) {
	x := Matrix{Data: make([]float32, 64), Stride: 8}
	panels := PackPanels(8, 8, x, false, make([]float32, PanelsSize(8, 8)))
	for _, p := range []Product{{M: 1, N: 8, K: 7}, {M: 1, N: 7, K: 8}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the panels of 8 x 8 were taken for a product of %d x %d", p.K, p.N)
				}
			}()
			p.A, p.B, p.C, p.StrideC, p.Panels = x, x, make([]float32, 8), 8, panels
			Multiply(p)
		}()
	}
}

// TestGemmAgreesWithFloat64Sums compares every variant with sums in float64. The limit
// is the rounding bound of a float32 sum of k products of numbers below 1.
func TestGemmAgreesWithFloat64Sums(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, v := range forms {
			for _, s := range sizes() {
				m, n, k := s[0], s[1], s[2]
				a, b := operand(t, rng, m, k, 3, v.transA), operand(t, rng, k, n, 5, v.transB)
				sums := products(m, n, k, a, v.transA, b, v.transB)
				for _, accumulate := range []bool{false, true} {
					c := guarded(t, random(rng, m*(n+2)-2)) // two of padding between rows
					before := slices.Clone(c)
					v.gemm(m, n, k, a.Data, a.Stride, b.Data, b.Stride, c, n+2, accumulate)
					limit := float64(k+2) * float64(k+1) * 0x1p-24
					for e, got := range c {
						i, j := e/(n+2), e%(n+2)
						want := float64(before[e])
						if j < n {
							if !accumulate {
								want = 0
							}
							want += sums[i*n+j]
						}
						if !(math.Abs(float64(got)-want) <= limit) {
							t.Fatalf("%s %v accumulate %v: c[%d,%d] = %v, want %v", v.name, s, accumulate, i, j, got, want)
						}
					}
				}
			}
		}
	})
}

// TestBitsDoNotDependOnWhereRowsLie has left operands whose rows lie a multiple of 4096 bytes apart: stored transposed,
// they are packed where others are read as they lie.
func TestBitsDoNotDependOnWhereRowsLie(t *testing.T) {
	m, n, k := 131, 70, 530
	if testing.Short() {
		m, n, k = 31, 70, 130
	}
	eachVariant(t, func(t *testing.T) {
		for _, v := range forms {
			rng := rand.New(rand.NewPCG(1, 2))
			a, b := operand(t, rng, m, k, 0, v.transA), operand(t, rng, k, n, 0, v.transB)
			want := make([]float32, m*n)
			v.gemm(m, n, k, a.Data, a.Stride, b.Data, b.Stride, want, n, false)
			for _, stride := range []int{1024, 1030, 2048} {
				length := a.Stride
				rows := len(a.Data) / length
				wide := guarded(t, make([]float32, (rows-1)*stride+length))
				for r := range rows {
					copy(wide[r*stride:], a.Data[r*length:][:length])
				}
				c := make([]float32, m*n)
				v.gemm(m, n, k, wide, stride, b.Data, b.Stride, c, n, false)
				if !slices.Equal(c, want) {
					t.Errorf("%s: the bits differ where rows lie %d elements apart", v.name, stride)
				}
			}
		}
	})
}

func TestGemmIsBitIdenticalForAnyNumberOfThreads(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		defer SetThreads(0)
		rng := rand.New(rand.NewPCG(3, 4))
		m, n, k := 130, 110, 600
		if testing.Short() {
			m, n, k = 30, 70, 400
		}
		for _, v := range forms {
			a, b := operand(t, rng, m, k, 0, v.transA), operand(t, rng, k, n, 0, v.transB)
			var first []float32
			for _, threads := range []int{1, 2, 3, 7, 16} {
				SetThreads(threads)
				c := make([]float32, m*n)
				v.gemm(m, n, k, a.Data, a.Stride, b.Data, b.Stride, c, n, false)
				if first == nil {
					first = c
				} else if !slices.Equal(c, first) {
					t.Errorf("%s: %d threads give other bits than 1", v.name, threads)
				}
			}
		}
	})
}

func TestMultiplyComputesGroupsAsIfOneByOne(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		var group []Product
		var want [][]float32
		for _, s := range [][3]int{{5, 70, 33}, {0, 70, 33}, {64, 70, 33}, {1, 70, 33}, {4, 9, 0}} {
			a, b := operand(t, rng, s[0], s[2], 0, false), operand(t, rng, s[2], s[1], 0, true)
			c := random(rng, s[0]*s[1])
			group = append(group, Product{M: s[0], N: s[1], K: s[2], A: a, B: b, TransB: true, C: c, StrideC: s[1]})
			w := random(rng, len(c))
			gemmNT(s[0], s[1], s[2], a.Data, a.Stride, b.Data, b.Stride, w, s[1], false)
			want = append(want, w)
		}
		Multiply(group...)
		for i := range group {
			if !slices.Equal(group[i].C, want[i]) {
				t.Errorf("product %d of the group differs from the same product alone", i)
			}
		}
	})
}

// TestOperandsAreWidened compares operands in half precision, and ones that a function
// loads, with the same numbers in float32.
func TestOperandsAreWidened(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for name, narrow := range narrowings(t) {
		eachVariant(t, func(t *testing.T) {
			for _, f := range forms {
				for _, s := range brief([][3]int{{50, 100, 300}, {15, 33, 17}, {15, 33, 400}, {100, 270, 520}, {1, 1, 1}}) {
					m, n, k := s[0], s[1], s[2]
					a, b := operand(t, rng, m, k, 1, f.transA), operand(t, rng, k, n, 2, f.transB)
					p := Product{M: m, N: n, K: k, A: narrow(a), B: narrow(b), TransA: f.transA, TransB: f.transB,
						C: make([]float32, m*n), StrideC: n}
					Multiply(p)
					want := make([]float32, m*n)
					f.gemm(m, n, k, a.Data, a.Stride, b.Data, b.Stride, want, n, false)
					if !slices.Equal(p.C, want) {
						t.Errorf("%s %v: not the product of the same numbers in float32", f.name, s)
					}
				}
			}
		}, name)
	}
}

// narrowings are the ways to store an operand but as float32: each returns it so, and makes its numbers
// those that are stored.
func narrowings(t *testing.T) map[string]func(Matrix) Matrix {
	return map[string]func(Matrix) Matrix{
		"BFloat16": func(x Matrix) Matrix {
			h := make([]uint16, len(x.Data))
			Float32ToBFloat16(h, x.Data)
			BFloat16ToFloat32(x.Data, h)
			return Matrix{Stride: x.Stride, BFloat16: guarded(t, h)}
		},
		"Float16": func(x Matrix) Matrix {
			h := make([]uint16, len(x.Data))
			Float32ToFloat16(h, x.Data)
			Float16ToFloat32(x.Data, h)
			return Matrix{Stride: x.Stride, Float16: guarded(t, h)}
		},
		"Int8": func(x Matrix) Matrix {
			whole, scale := make([]int8, len(x.Data)), make([]float32, len(x.Data)/max(x.Stride, 1)+1)
			for i, v := range x.Data {
				scale[i/x.Stride] = 0.1 * float32(1+i/x.Stride%3)
				whole[i] = int8(30 * v)
				x.Data[i] = scale[i/x.Stride] * float32(whole[i])
			}
			return Matrix{Stride: x.Stride, Int8: guarded(t, whole), Scale: scale}
		},
		"Load": func(x Matrix) Matrix {
			return Matrix{Stride: x.Stride, Load: func(dst []float32, from int) { copy(dst, x.Data[from:from+len(dst)]) }}
		},
	}
}

func TestFinishSeesEveryElementOnceWhenItIsComplete(t *testing.T) {
	defer SetThreads(0)
	rng := rand.New(rand.NewPCG(2, 8))
	eachVariant(t, func(t *testing.T) {
		for _, s := range brief([][3]int{{130, 300, 500}, {15, 33, 400}, {5, 7, 0}, {1, 1, 1}}) {
			for _, accumulate := range []bool{false, true} {
				m, n, k := s[0], s[1], s[2]
				a, b, bias := operand(t, rng, m, k, 0, false), operand(t, rng, k, n, 0, false), random(rng, n)
				want := random(rng, m*n)
				p := Product{M: m, N: n, K: k, A: a, B: b, C: slices.Clone(want), StrideC: n, Accumulate: accumulate,
					Finish: func(c []float32, _, col int) { Add(c, c, bias[col:][:len(c)]) }}
				gemmNN(m, n, k, a.Data, max(k, 1), b.Data, n, want, n, accumulate)
				for i := range m {
					Add(want[i*n:][:n], want[i*n:][:n], bias)
				}
				for _, threads := range []int{1, 3} {
					SetThreads(threads)
					q := p
					q.C = slices.Clone(p.C)
					Multiply(q)
					if !slices.Equal(q.C, want) {
						t.Errorf("%v accumulate %v, %d threads: not the product plus the bias", s, accumulate, threads)
					}
				}
			}
		}
	})
}

func TestShortSlicesPanic(t *testing.T) {
	full := make([]float32, 12)
	cases := []struct {
		name, want string
		f          func()
	}{
		{"a", shortA, func() { gemmNN(3, 4, 3, full[:8], 3, full, 4, full, 4, false) }},
		{"b", shortB, func() { gemmNT(3, 4, 3, full, 3, full[:11], 3, full, 4, false) }},
		{"c", shortC, func() { gemmTN(3, 4, 3, full, 3, full, 4, full[:11], 4, false) }},
		{"scale", shortB, func() {
			Multiply(Product{M: 3, N: 4, K: 3, A: Matrix{Data: full, Stride: 3},
				B: Matrix{Int8: make([]int8, 12), Scale: full[:2], Stride: 4}, C: full, StrideC: 4})
		}},
		{"stride", badStride, func() { gemmNN(3, 4, 3, full, 2, full, 4, full, 4, false) }},
		{"size", negSize, func() { gemmNN(-1, 4, 3, full, 3, full, 4, full, 4, false) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if r := recover(); r != c.want {
					t.Errorf("panic %v, want %q", r, c.want)
				}
			}()
			c.f()
		})
	}
}

// gemmNN, gemmNT and gemmTN are products of float32 matrices whose rows are lda, ldb and ldc apart.
func gemmNN(m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, add bool) {
	gemm(m, n, k, a, lda, b, ldb, c, ldc, add, false, false)
}

func gemmNT(m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, add bool) {
	gemm(m, n, k, a, lda, b, ldb, c, ldc, add, false, true)
}

func gemmTN(m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, add bool) {
	gemm(m, n, k, a, lda, b, ldb, c, ldc, add, true, false)
}

func gemm(m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, add, transA, transB bool) {
	Multiply(Product{M: m, N: n, K: k, A: Matrix{Data: a, Stride: lda}, TransA: transA,
		B: Matrix{Data: b, Stride: ldb}, TransB: transB, C: c, StrideC: ldc, Accumulate: add})
}
