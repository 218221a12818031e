package crosscheck

import (
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// thin is u = scale x A^T or v = scale dy B of an adapter [tokens, rank], as it is multiplied.
type thin struct {
	rank   int
	values []float32
	// moved is, where elements are rounded, how far apart the numbers are that the kernel's and this one may
	// become: mostly 0, but where an error as that of a sum in float32 decides.
	moved []float32
}

// u is that of x.
func (l *layer) u(x []float32) thin {
	return l.thin(simd.Product{M: l.tokens, N: l.rank, K: l.dim, A: l.factor(x, l.dim), B: l.factor(l.a, l.dim), TransB: true},
		rowNorms(core.FromFloat32(x, l.tokens, l.dim), 0, l.tokens, l.dim),
		rowNorms(core.FromFloat32(l.a, l.rank, l.dim), 0, l.rank, l.dim))
}

// v is that of dy.
func (l *layer) v(dy []float32) thin {
	return l.thin(simd.Product{M: l.tokens, N: l.rank, K: l.out, A: l.factor(dy, l.out), B: l.factor(l.b, l.rank)},
		rowNorms(core.FromFloat32(dy, l.tokens, l.out), 0, l.tokens, l.out),
		columnNorms(core.FromFloat32(l.b, l.out, l.rank), l.out, l.rank))
}

// thin is scale times the product of two factors, of which the norms are given that bound its terms.
func (l *layer) thin(p simd.Product, left, right []float64) thin {
	values := make([]float32, p.M*p.N)
	p.C, p.StrideC = values, p.N
	simd.Multiply(p)
	simd.Scale(values, values, l.scale)
	if !l.rounded {
		return thin{p.N, values, nil}
	}
	moved, most := make([]float32, len(values)), 2*(few+rounding(p.K))*math.Abs(float64(l.scale))
	for i, v := range values {
		off := float32(most * left[i/p.N] * right[i%p.N])
		moved[i] = toBFloat16(v+off) - toBFloat16(v-off)
		values[i] = toBFloat16(v)
	}
	return thin{p.N, values, moved}
}

func toBFloat16(v float32) float32 { return core.BFloat16ToFloat32(core.Float32ToBFloat16(v)) }

// movedAlong is by how much a token's elements may have moved what is added up of them along a direction:
// r [rank, directions] is what a matrix that they are multiplied by makes of these.
func (t thin) movedAlong(token int, r []float32) float64 {
	if t.moved == nil {
		return 0
	}
	var sums [directions]float64
	for i, m := range t.moved[token*t.rank:][:t.rank] {
		for d, v := range r[i*directions:][:directions] {
			sums[d] += math.Abs(float64(m) * float64(v))
		}
	}
	return slices.Max(sums[:])
}

// transposed has tokens for the rank, and the other way round.
func (t thin) transposed() thin {
	tokens := len(t.moved) / t.rank
	turned := make([]float32, len(t.moved))
	for i, m := range t.moved {
		turned[i%t.rank*tokens+i/t.rank] = m
	}
	return thin{rank: tokens, moved: turned}
}

// factor is a float32 matrix as products have it, whose rows have cols elements.
func (l *layer) factor(x []float32, cols int) simd.Matrix {
	return simd.Matrix{Data: x, Stride: cols, Rounded: l.rounded}
}

// add adds to want what the adapter gives along some directions, given what these make of its second matrix.
func (l *layer) add(want []float32, t thin, r []float32) {
	simd.Multiply(simd.Product{M: l.tokens, N: directions, K: l.rank, A: dense(t.values, l.rank), B: dense(r, directions),
		C: want, StrideC: directions, Accumulate: true})
}

// adapter is what the adapter can lose, relative to the norm of a row of so many elements that
// goes through it.
func (l *layer) adapter(terms int) float64 {
	if l.rank == 0 {
		return 0
	}
	return float64(l.scale) * l.aNorm * l.bNorm * (few + 4*rounding(terms) + 4*rounding(l.rank))
}

// adapterGradients judges dA = v^T x and dB = dy^T u. What u and v lose of their terms stays in the gradients.
func (l *layer) adapterGradients(x, dy []float32, v thin, thin, r []float32, columns []float64) []worst {
	u, scale, xNorm, dyNorm := l.u(x), float64(l.scale), norm2(x), norm2(dy)
	da, db := named("dlora_a"), named("dlora_b")
	ofB, rank := columnNorms(core.FromFloat32(l.b, l.out, l.rank), l.out, l.rank), random(l.rank)
	movedV, movedU := make([]float64, l.rank), make([]float64, l.out)
	if l.rounded {
		turned := v.transposed()
		for i := range movedV {
			movedV[i] = turned.movedAlong(i, thin)
		}
		for t := range l.tokens {
			for n, m := 0, u.movedAlong(t, rank); m > 0 && n < l.out; n++ {
				movedU[n] += m * math.Abs(float64(dy[t*l.out+n]))
			}
		}
	}
	l.gradient(da, v.values, thin, r, func(most float64, row int) float64 {
		return within(most, 2*scale*dyNorm*ofB[row]*xNorm*(1+nested(l.out, l.tokens))) + movedV[row]
	})
	l.gradient(db, dy, along(l.factor(u.values, l.rank), l.tokens, l.rank, rank), rank, func(most float64, n int) float64 {
		return within(most, 2*scale*columns[n]*xNorm*l.aNorm*(1+nested(l.dim, l.tokens))) + movedU[n]
	})
	return append(da, db...)
}

// nested is how much more a sum of tokens errs whose terms are sums themselves.
func nested(terms, tokens int) float64 {
	return rounding(terms) / rounding(max(tokens, 1))
}
