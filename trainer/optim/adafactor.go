package optim

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// adafactor is the optimizer of Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear
// Memory Cost" (2018), as transformers' Trainer has it: without a first moment and without steps that
// are relative. Of a matrix it keeps the means over rows and over columns of the second moment:
//
//	b    = 1 - t^-0.8
//	row  = b*row + (1-b)*mean of g*g + 1e-30 over the row, and col likewise
//	u    = g / sqrt(row/mean(row)) / sqrt(col); of a vector, g / sqrt(v)
//	u   /= max(1, rms(u))
//	p   -= lr*decay*p + lr*u
//
// where lr is multiplied by max(1e-3, rms(p)) with ScaleParameter.
type adafactor struct{ Config }

const (
	factorEps1, factorEps2 = 1e-30, 1e-3
	factorDecay            = -0.8
	factorClip             = 1  // of the root of an update's mean square
	factorRows             = 64 // rows that are added up in float32
)

// sides returns the rows and columns of a matrix, which may be the last two of several axes.
func sides(p *Param) (rows, cols int, ok bool) {
	if len(p.Shape) < 2 {
		return 1, p.elems(), false
	}
	cols = p.Shape[len(p.Shape)-1]
	return p.elems() / cols, cols, len(p.Shape) == 2
}

// A tensor of more axes than a matrix has, such as packed experts, is kept whole.
func (adafactor) keeps(p *Param) []slot {
	rows, cols, ok := sides(p)
	if !ok {
		return []slot{p.float32s("exp_avg_sq")}
	}
	return []slot{{"exp_avg_sq_row", core.Float32, core.Shape{rows}}, {"exp_avg_sq_col", core.Float32, core.Shape{cols}}}
}

func (a adafactor) change(s *step, p *Param, state []core.Tensor) func(value []float32, lo, hi int) {
	b := 1 - math.Pow(float64(s.t), factorDecay)
	lr := s.lr
	if a.ScaleParameter {
		lr *= max(factorEps2, math.Sqrt(p.sumSquares()/float64(p.elems())))
	}
	f := &factored{p: p, scale: s.scale, keep: float32(1 - lr*s.decay)}
	var squares float64
	if len(state) == 1 {
		squares = f.vector(state[0].Float32s(), b)
	} else {
		squares = f.matrix(state[0].Float32s(), state[1].Float32s(), b)
	}
	f.step = lr / max(1, math.Sqrt(squares/float64(p.elems()))/factorClip)
	return f.change
}

// factored is one step of one parameter, of which row r and column c are updated by the gradient times
// rows[r] and cols[c]; a vector has one column factor for each element.
type factored struct {
	p           *Param
	scale, step float64
	keep        float32
	rows        []float64
	cols        []float32
}

// vector takes the gradient into the second moment and returns the sum of the update's squares.
func (f *factored) vector(v []float32, b float64) (squares float64) {
	f.rows, f.cols = []float64{1}, make([]float32, len(v))
	for i, g := range f.p.Grad {
		x := f.scale * float64(g)
		v[i] = float32(b*float64(v[i]) + (1-b)*(x*x+factorEps1))
		f.cols[i] = float32(1 / math.Sqrt(float64(v[i])))
		u := x * float64(f.cols[i])
		squares += u * u
	}
	return squares
}

// matrix does the same for the means over rows and columns.
func (f *factored) matrix(row, col []float32, b float64) (squares float64) {
	n := len(col)
	ofRows, ofCols := f.sums(len(row), n)
	mean := 0.0
	for r, sum := range ofRows {
		row[r] = float32(b*float64(row[r]) + (1-b)*(f.scale*f.scale*sum/float64(n)+factorEps1))
		mean += float64(row[r]) / float64(len(row))
	}
	f.rows, f.cols = make([]float64, len(row)), make([]float32, n)
	for c, sum := range ofCols {
		col[c] = float32(b*float64(col[c]) + (1-b)*(f.scale*f.scale*sum/float64(len(row))+factorEps1))
		f.cols[c] = float32(1 / math.Sqrt(float64(col[c])))
	}
	for r := range row {
		f.rows[r] = 1 / math.Sqrt(float64(row[r])/mean)
	}
	each := make([]float64, len(row))
	simd.Parallel(len(row), grain/n+1, func(lo, hi int) {
		u := make([]float32, n)
		for r := lo; r < hi; r++ {
			simd.Mul(u, f.p.Grad[r*n:][:n], f.cols)
			each[r] = simd.SumSquares(u) * f.scale * f.scale * f.rows[r] * f.rows[r]
		}
	})
	for _, s := range each {
		squares += s
	}
	return squares
}

// sums returns the sums of the squares of the gradient over each row and each column. How they are
// divided does not depend on the threads.
func (f *factored) sums(rows, cols int) (ofRows, ofCols []float64) {
	ofRows, ofCols = make([]float64, rows), make([]float64, cols)
	parts := make([][]float32, (rows+factorRows-1)/factorRows)
	const together = 16 // parts in memory at once
	for from := 0; from < len(parts); from += together {
		some := parts[from:min(from+together, len(parts))]
		simd.Parallel(len(some), 1, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				some[i] = make([]float32, cols)
				for r := (from + i) * factorRows; r < min((from+i+1)*factorRows, rows); r++ {
					g := f.p.Grad[r*cols:][:cols]
					ofRows[r] = simd.SumSquares(g)
					simd.MulAdd(some[i], g, g)
				}
			}
		})
		for i, part := range some {
			for c, x := range part {
				ofCols[c] += float64(x)
			}
			some[i] = nil
		}
	}
	return ofRows, ofCols
}

func (f *factored) change(value []float32, lo, hi int) {
	n := len(f.cols)
	for at := lo; at < hi; {
		r, c := at/n, at%n
		to := min(hi, at+n-c)
		by := float32(f.step * f.scale * f.rows[r])
		x, g := value[at-lo:to-lo], f.p.Grad[at:to]
		for i, w := range f.cols[c : c+to-at] {
			x[i] = float32(f.keep*x[i]) - float32(float32(by*g[i])*w)
		}
		at = to
	}
}
