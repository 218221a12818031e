package crosscheck

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// layer is one call of linear, or a part of one that is made of layers. Its large outputs are compared
// along random directions.
type layer struct {
	c              *core.Call
	y, named, bias string // how the call names its output, weight and bias
	tokens         int
	dim, out, rank int
	scale          float32
	matrix         simd.Matrix // the weight
	weightNorm     float64
	a, b           []float32 // the adapter's, nil without one
	aNorm, bNorm   float64
	rounded        bool // the factors of products are rounded to bfloat16
}

func linear(c *core.Call) []worst {
	f := c.Facts
	l := newLayer(c, "y", "weight", "bias")
	l.rank, l.scale = f.Rank, float32(f.Scale)
	if f.Rank > 0 {
		l.a, l.b = c.Input("lora_a").Float32s(), c.Input("lora_b").Float32s()
		l.aNorm, l.bNorm = norm2(l.a), norm2(l.b)
	}
	if c.Pass == core.Forward {
		return l.forward()
	}
	return l.backward()
}

func newLayer(c *core.Call, y, weight, bias string) *layer {
	l := &layer{c: c, y: y, named: weight, bias: bias, tokens: c.Tokens(), dim: c.Facts.Dim,
		out: c.Input(weight).Shape[0], rounded: c.Facts.Products == core.BFloat16}
	var norms []float64
	l.matrix, norms = storedWeight(c, weight)
	l.weightNorm, l.matrix.Rounded = whole(norms), l.rounded
	return l
}

// storedWeight returns a weight as an operand, and the norms of its rows. In int8 these are multiplied.
func storedWeight(c *core.Call, name string) (m simd.Matrix, norms []float64) {
	w := c.Input(name)
	rows, cols := w.Shape[0], w.Shape[1]
	if w.DType == core.NF4 {
		q := &simd.NF4{Codes: w.Data, Absmax: c.Input(name + "_absmax").Int8s(), Scale: c.Input(name + "_scale").Float32s(),
			Matrices: 1}
		return simd.Matrix{Load: q.Load, Stride: cols}, normsOf(q.Load, 0, rows, cols)
	}
	norms = rowNorms(w, 0, rows, cols)
	if w.DType != core.Int8 {
		return operand(w, 0, cols), norms
	}
	m = simd.Matrix{Int8: w.Int8s(), Scale: c.Input(name + "_scale").Float32s(), Stride: cols}
	for n, s := range m.Scale {
		norms[n] *= math.Abs(float64(s))
	}
	return m, norms
}

// spread is how much of the norm of an error is seen along a random direction of n elements.
// Errors of single elements are as often with the direction as against it, so that the sum is
// beyond lambda times the root of the sum of their squares with a probability of
// exp(-lambda^2/2) at most (W. Hoeffding, "Probability inequalities for sums of bounded random
// variables", 1963); and all of it can be seen if there are few.
func spread(n int) float64 {
	const lambda = 6
	return math.Min(1, lambda/math.Sqrt(float64(max(n, 1))))
}

// relative bounds the error of a row of n products of so many terms, compared along a direction
// with a product that is added up in another order: that of the kernel, and twice that of the
// comparison.
func relative(terms, n int) float64 { return (few + 2*rounding(terms) + 2*rounding(n)) * spread(n) }

// forward judges y r = x (weight^T r) + bias r + scale (x A^T)(B^T r).
func (l *layer) forward() []worst {
	r := random(l.out)
	of := l.transposed(l.matrix, l.out, l.dim, r)
	x := l.c.Input("x").Float32s()
	want, ofBias := along(l.factor(x, l.dim), l.tokens, l.dim, of), make([]float32, directions)
	var u thin
	var up []float32
	if l.rank > 0 {
		u, up = l.u(x), l.transposed(l.factor(l.b, l.rank), l.out, l.rank, r)
		l.add(want, u, up)
	}
	var bias float64
	if l.c.Facts.Bias {
		b := l.c.Input(l.bias).Float32s()
		bias, ofBias = norm2(b), along(dense(b, l.out), 1, l.out, r)
	}
	for t := range l.tokens {
		simd.Add(want[t*directions:][:directions], want[t*directions:][:directions], ofBias)
	}
	y, most := named(l.y), relative(l.dim, l.out)
	seeRows(y, l.c.Output(l.y), l.out, r, want, func(t int) float64 {
		size := norm2(x[t*l.dim:][:l.dim])
		return within(most, size*l.weightNorm+bias) + size*l.adapter(l.dim)*spread(l.out) + u.movedAlong(t, up)
	})
	return y
}

// transposed returns the products of the columns of a matrix and the directions.
func (l *layer) transposed(m simd.Matrix, rows, cols int, r []float32) []float32 {
	out := make([]float32, cols*directions)
	simd.Multiply(simd.Product{M: cols, N: directions, K: rows, A: m, TransA: true, B: dense(r, directions), C: out,
		StrideC: directions})
	return out
}

// backward judges dx r = dy (weight r + scale B (A r)) and the gradients of what is trained.
func (l *layer) backward() []worst {
	dy, r := l.c.Input("dy").Float32s(), random(l.dim)
	want := along(l.factor(dy, l.out), l.tokens, l.out, along(l.matrix, l.out, l.dim, r))
	var v thin
	var down []float32
	if l.rank > 0 {
		v, down = l.v(dy), along(l.factor(l.a, l.dim), l.rank, l.dim, r)
		l.add(want, v, down)
	}
	dx, most := named("dx"), relative(l.out, l.dim)
	seeRows(dx, l.c.Output("dx"), l.dim, r, want, func(t int) float64 {
		size := norm2(dy[t*l.out:][:l.out])
		return within(most, size*l.weightNorm) + size*l.adapter(l.out)*spread(l.dim) + v.movedAlong(t, down)
	})
	if l.c.Facts.Frozen && l.rank == 0 {
		return dx
	}
	x := l.c.Input("x").Float32s()
	thin, xNorm := along(l.factor(x, l.dim), l.tokens, l.dim, r), norm2(x)
	columns := columnNorms(core.FromFloat32(dy, l.tokens, l.out), l.tokens, l.out)
	found := dx
	if !l.c.Facts.Frozen {
		found = append(found, l.weightGradients(dy, thin, r, columns, xNorm)...)
	}
	if l.rank > 0 {
		found = append(found, l.adapterGradients(x, dy, v, thin, r, columns)...)
	}
	return found
}

// weightGradients judges dweight, and dbias if there is a bias.
func (l *layer) weightGradients(dy, thin, r []float32, columns []float64, xNorm float64) []worst {
	found := named("d" + l.named)
	l.gradient(found, dy, thin, r, func(most float64, n int) float64 { return within(most, columns[n]*xNorm) })
	if l.c.Facts.Bias {
		found = append(found, l.biasGradient(dy)...)
	}
	return found
}

// gradient judges left^T right, of left [T, rows] and of what the directions r make of right,
// thin [T, directions]. limit is that of a row whose products err so much, relative to their terms.
func (l *layer) gradient(found []worst, left, thin, r []float32, limit func(most float64, row int) float64) {
	rows, cols := len(left)/l.tokens, len(r)/directions
	want := l.transposed(l.factor(left, rows), l.tokens, rows, thin)
	most := relative(l.tokens, cols)
	seeRows(found, l.c.Output(found[0].tensor), cols, r, want, func(row int) float64 { return limit(most, row) })
}

// biasGradient judges dbias, which is the sum of dy over the tokens.
func (l *layer) biasGradient(dy []float32) []worst {
	found := named("d" + l.bias)
	got := l.c.Output(found[0].tensor).Float32s()
	each(found, l.out, l.tokens, func(lo, hi int, found []worst) {
		sum, size := make([]float64, hi-lo), make([]float64, hi-lo)
		for t := range l.tokens {
			for i, v := range dy[t*l.out+lo : t*l.out+hi] {
				sum[i] += float64(v)
				size[i] += math.Abs(float64(v))
			}
		}
		for i, want := range sum {
			found[0].see(lo+i, float64(got[lo+i]), want, within(rounding(l.tokens), size[i]))
		}
	})
	return found
}
