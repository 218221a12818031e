package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// onBorders makes every third element one in the middle between two numbers of bfloat16, and leaves
// some that these have.
func onBorders(x []float32) {
	for i, v := range x {
		switch b := math.Float32bits(v) &^ 0xffff; i % 6 {
		case 0, 3:
			x[i] = math.Float32frombits(b | 0x8000)
		case 5:
			x[i] = math.Float32frombits(b)
		}
	}
}

// roundedBefore returns the matrix with its elements rounded, as float32.
func roundedBefore(x Matrix) Matrix {
	x.Rounded = false
	bits := make([]uint16, x.len())
	data := make([]float32, len(bits))
	if x.plain() {
		copy(data, x.Data)
	} else {
		for r := 0; r*x.Stride < len(data); r++ {
			x.widen(data[r*x.Stride:][:x.Stride], r*x.Stride)
		}
	}
	toBFloat16Generic(bits, data)
	fromBFloat16Generic(data, bits)
	return Matrix{Data: data, Stride: x.Stride}
}

// roundedSizes are products of few rows and of many, and past the steps of the inner dimension.
var roundedSizes = [][3]int{{1, 70, 40}, {3, 33, 600}, {37, 300, 65}, {130, 64, 1100}, {20, 33, 520}}

func TestRoundedOperandsGiveTheBitsOfThoseRoundedBefore(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 16))
		for _, f := range forms {
			for i, s := range brief(slices.Clone(roundedSizes)) {
				m, n, k := s[0], s[1], s[2]
				p := Product{M: m, N: n, K: k, A: numbers(rng, m, k, f.transA), B: numbers(rng, k, n, f.transB),
					TransA: f.transA, TransB: f.transB, C: make([]float32, m*n), StrideC: n}
				onBorders(p.A.Data)
				onBorders(p.B.Data)
				q := p
				q.C = make([]float32, m*n)
				if i%3 != 1 {
					q.A, p.A.Rounded = roundedBefore(p.A), true
				}
				if i%3 != 2 {
					q.B, p.B.Rounded = roundedBefore(p.B), true
				}
				Multiply(p)
				Multiply(q)
				if !slices.Equal(p.C, q.C) {
					t.Errorf("%s %v: a product of rounded operands has other bits than that of operands rounded before", f.name, s)
				}
			}
		}
	})
}

func TestRoundedOperandsOnTilesGiveTheBitsOfBFloat16(t *testing.T) {
	needTiles(t)
	rng := rand.New(rand.NewPCG(2, 16))
	for _, f := range forms {
		for _, s := range brief(slices.Clone(roundedSizes)) {
			m, n, k := s[0], s[1], s[2]
			p := Product{M: m, N: n, K: k, A: numbers(rng, m, k, f.transA), B: numbers(rng, k, n, f.transB),
				TransA: f.transA, TransB: f.transB, C: make([]float32, m*n), StrideC: n}
			onBorders(p.A.Data)
			onBorders(p.B.Data)
			q := p
			for _, x := range []*Matrix{&q.A, &q.B} {
				bits := make([]uint16, len(x.Data))
				toBFloat16Generic(bits, x.Data)
				*x = Matrix{BFloat16: bits, Stride: x.Stride}
			}
			want := onTiles(q)
			p.A.Rounded, p.B.Rounded = true, true
			if !slices.Equal(onTiles(p), want) {
				t.Errorf("%s %v: rounded operands have other bits than those stored as bfloat16", f.name, s)
			}
			b := PackRight(k, n, p.B, f.transB)
			if b.Bytes() != PackRight(k, n, q.B, f.transB).Bytes() {
				t.Errorf("%s %v: packed, a rounded operand takes %d bytes", f.name, s, b.Bytes())
			}
			p.B.Data[0] = 1e-39 // computed as Multiply does, where there are subnormal numbers
			q.A, q.B = roundedBefore(p.A), roundedBefore(p.B)
			q.A.Rounded, q.B.Rounded = true, true
			if !slices.Equal(onTiles(p), onTiles(q)) {
				t.Errorf("%s %v: with a subnormal number, what is rounded twice differs", f.name, s)
			}
		}
	}
}

// TestWhatIsWidenedIsRoundedThen has the storage types that have digits which bfloat16 has not.
func TestWhatIsWidenedIsRoundedThen(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 16))
		const m, n, k = 40, 48, 70
		a := numbers(rng, m, k, false)
		half := Matrix{Float16: make([]uint16, n*k), Stride: k}
		Float32ToFloat16(half.Float16, random(rng, n*k))
		whole := Matrix{Int8: make([]int8, n*k), Scale: random(rng, n), Stride: k}
		for i := range whole.Int8 {
			whole.Int8[i] = int8(rng.IntN(255) - 127)
		}
		source := random(rng, n*k)
		loaded := Matrix{Load: func(dst []float32, from int) { copy(dst, source[from:]) }, Stride: k}
		for name, b := range map[string]Matrix{"float16": half, "int8": whole, "load": loaded} {
			before := b
			if before.Load != nil {
				before = Matrix{Data: source, Stride: k}
			}
			p := Product{M: m, N: n, K: k, A: a, B: b, TransB: true, C: make([]float32, m*n), StrideC: n}
			q := p
			q.B, q.C = roundedBefore(before), make([]float32, m*n)
			p.B.Rounded = true
			Multiply(p)
			Multiply(q)
			if !slices.Equal(p.C, q.C) {
				t.Errorf("%s: other bits than of numbers rounded before", name)
			}
			if HasTiles() {
				q.B.Rounded = true
				if !slices.Equal(onTiles(p), onTiles(q)) {
					t.Errorf("%s: other bits on tiles", name)
				}
			}
		}
	})
}
