package lora

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/seed98097648/tune/internal/simd"
)

// principal returns B [out, rank] and A [rank, in] such that scale * B A is the part of a matrix w [out, in] with its
// largest singular values: B = U sqrt(S/scale), A = sqrt(S/scale) V^T. Of each column of B the element of the largest
// magnitude is positive. Large matrices are reduced to a few more dimensions first, by subspace iteration from random
// numbers that are always the same (Halko, Martinsson, Tropp: "Finding structure with randomness", 2011).
func principal(w []float32, out, in, rank int, scale float64) (b, a []float32) {
	small, rows := w, out
	var q []float32 // [rows, out], the dimensions of small
	if l := 2*rank + 8; 2*l < min(out, in) {
		q, small = span(w, out, in, l)
		rows = l
	}
	wide := make([]float64, rows*in)
	for i, x := range small {
		wide[i] = float64(x)
	}
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(rows, in, wide), mat.SVDThin) {
		return nil, nil // of numbers that are not finite
	}
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	b, a = make([]float32, out*rank), make([]float32, rank*in)
	column := make([]float64, out)
	for k, s := range svd.Values(nil)[:rank] {
		clear(column)
		for i := range rows {
			if q == nil {
				column[i] = u.At(i, k)
				continue
			}
			for n, x := range q[i*out:][:out] {
				column[n] += u.At(i, k) * float64(x)
			}
		}
		root := math.Sqrt(s / scale)
		largest := 0.0
		for _, x := range column {
			if math.Abs(x) > math.Abs(largest) {
				largest = x
			}
		}
		root = math.Copysign(root, largest)
		for n, x := range column {
			b[n*rank+k] = float32(root * x)
		}
		for n := range in {
			a[k*in+n] = float32(root * v.At(n, k))
		}
	}
	return b, a
}

// span returns l orthonormal rows q [l, out] that hold most of the columns of w [out, in], and q w [l, in].
func span(w []float32, out, in, l int) (q, small []float32) {
	const most, enough = 24, 1e-7 // iterations, and what one has to add to the squares that are held
	rng := rand.New(rand.NewPCG(0, 0x706973))
	p := make([]float32, l*in)
	for i := range p {
		p[i] = float32(rng.NormFloat64())
	}
	q, small = make([]float32, l*out), make([]float32, l*in)
	before := 0.0
	for range most {
		orthonormal(p, in)
		simd.Multiply(simd.Product{M: l, N: out, K: in, A: simd.Matrix{Data: p, Stride: in},
			B: simd.Matrix{Data: w, Stride: in}, TransB: true, C: q, StrideC: out})
		orthonormal(q, out)
		simd.Multiply(simd.Product{M: l, N: in, K: out, A: simd.Matrix{Data: q, Stride: out},
			B: simd.Matrix{Data: w, Stride: in}, C: small, StrideC: in})
		held := simd.SumSquares(small)
		if !(held > before*(1+enough)) {
			break
		}
		before = held
		copy(p, small)
	}
	return q, small
}

// orthonormal makes the rows of x so, one after the other. A row that lies within those before it becomes zero.
func orthonormal(x []float32, cols int) {
	const nothing = 1e-5 // of what a row was
	for i := 0; i < len(x); i += cols {
		row := x[i:][:cols]
		was := math.Sqrt(simd.SumSquares(row))
		for range 2 { // what rounding leaves of the others the first time, the second takes away
			for j := 0; j < i; j += cols {
				other := x[j:][:cols]
				simd.Axpy(-simd.Dot(row, other), other, row)
			}
		}
		norm := math.Sqrt(simd.SumSquares(row))
		if !(norm > nothing*was) {
			clear(row)
			continue
		}
		simd.Scale(row, row, float32(1/norm))
	}
}
