package linear

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// linearTerms: all that is added up are products of inputs, so that the sums of the terms'
// squares are the op's outputs of the squares of its inputs.
func linearTerms(in *opdef.Inputs, pass core.Pass, output string) []float64 {
	squared := linearInputs[float64]{Facts: in.Facts, scale: in.Facts.Scale * in.Facts.Scale}
	squared.Products = core.InvalidDType
	for name, to := range squared.named() {
		*to = in.Wide(name)
	}
	squared.widen()
	for _, to := range squared.named() {
		for i, v := range *to {
			(*to)[i] = v * v
		}
	}
	squared.prepare()
	sums := squared.gradients
	if pass == core.Forward {
		sums = squared.forward
	}
	return opdef.Squares(sums()[output]).Roots()
}

// linearBorders: u and v are sums in float32, which are rounded before they are multiplied; and processors'
// instructions for bfloat16 take what is smaller than the normal numbers of float32 as 0.
func linearBorders(in *opdef.Inputs, _ core.Pass, output string) []float64 {
	if in.Facts.Products != core.BFloat16 || output == "dbias" {
		return nil
	}
	l := linearInputs[float64]{Facts: in.Facts}
	for name, to := range l.named() {
		*to = in.Wide(name)
	}
	l.prepare()
	T, D, N, R := in.Tokens, l.Dim, l.Out, l.Rank
	x, dy := matrix{l.x, nil, D, 1}, matrix{l.dy, nil, N, 1}
	weight, a, b := matrix{l.weight, nil, D, 1}, matrix{l.a, nil, D, 1}, matrix{l.b, nil, R, 1}
	var m moves
	switch output {
	case "y":
		m.add(T, N, D, x, weight)
		m.add(T, N, R, l.thinned(T, D, x, a), b)
	case "dx":
		m.add(T, D, N, dy, weight.transposed())
		m.add(T, D, R, l.thinned(T, N, dy, b.transposed()), a.transposed())
	case "dweight":
		m.add(N, D, T, dy.transposed(), x.transposed())
	case "dlora_a":
		m.add(R, D, T, l.thinned(T, N, dy, b.transposed()).transposed(), x.transposed())
	case "dlora_b":
		m.add(N, R, T, dy.transposed(), l.thinned(T, D, x, a).transposed())
	}
	return m
}

// matrix is a factor of a product: element (i, k) is at i*rows + k*columns. off, if it is there, is by how much
// an element may differ.
type matrix struct {
	v, off        []float64
	rows, columns int
}

func (m matrix) transposed() matrix { return matrix{m.v, m.off, m.columns, m.rows} }

func (m matrix) at(i, k int) (v, off float64) {
	at := i*m.rows + k*m.columns
	if m.off != nil {
		off = m.off[at]
	}
	return m.v[at], off
}

// moves are by how much the elements of a result may differ.
type moves []float64

// add adds those of a (i, n) times the transpose of b (j, n).
func (m *moves) add(is, js, n int, a, b matrix) {
	if *m == nil {
		*m = make(moves, is*js)
	}
	for i := range is {
		for j := range js {
			for k := range n {
				p, offP := a.at(i, k)
				q, offQ := b.at(j, k)
				(*m)[i*js+j] += lost(p, q) + offP*math.Abs(q) + offQ*math.Abs(p)
			}
		}
	}
}

// smallest is the smallest normal number of float32.
const smallest = 0x1p-126

// lost is how much a sum may be wrong for one of its products, which is taken as 0 if a factor or it is smaller
// than normal numbers, and so is the sum up to there.
func lost(a, b float64) float64 {
	switch v := math.Abs(a * b); {
	case v == 0:
		return 0
	case min(math.Abs(a), math.Abs(b)) <= smallest: // or was before it was rounded up to that
		return v + smallest
	}
	return smallest
}

// thinned is u or v, the sums of n products of an input and a matrix of the adapter, as they are multiplied. Roundings
// in float32 are as often up as down, so that the sum of n of them is beyond 4 sqrt(n) of the largest next to never.
func (in *linearInputs[F]) thinned(tokens, n int, x, a matrix) matrix {
	R := in.Rank
	out := matrix{make([]float64, tokens*R), make([]float64, tokens*R), R, 1}
	for t := range tokens {
		for r := range R {
			sum, squares, missing := 0.0, 0.0, 0.0
			for k := range n {
				p, _ := x.at(t, k)
				q, _ := a.at(r, k)
				v := in.Scale * p * q
				sum, squares, missing = sum+v, squares+v*v, missing+math.Abs(in.Scale)*lost(p, q)
			}
			out.v[t*R+r] = sum
			out.off[t*R+r] = border(sum, 4*math.Sqrt(float64(n))*0x1p-24*(math.Abs(sum)+math.Sqrt(squares))+missing)
		}
	}
	opdef.RoundBFloat16(out.v)
	return out
}

// border returns how far apart the numbers of bfloat16 are that a sum may be rounded to after it was computed with
// an error: 0, unless it lies in the middle between two.
func border(sum, err float64) float64 {
	ends := []float64{sum - err, sum + err}
	opdef.RoundBFloat16(ends)
	if apart := ends[1] - ends[0]; apart > 0 && !math.IsInf(apart, 1) {
		return apart
	}
	return 0
}
