package opdef

import (
	"math"

	"github.com/seed98097648/tune/core"
)

// Product returns m v, m [len(m)/len(v), len(v)].
func Product[F Float](m, v []F) []F {
	out := make([]F, len(m)/len(v))
	Products(out, m, len(v), v)
	return out
}

// Products writes the sums of products of v and rows that lie stride elements apart in m, added up in the arithmetic
// of out: those of four rows at once, as a sum waits for its last term.
func Products[S, F Float](out []S, m []F, stride int, v []F) {
	n := len(v)
	for len(out) >= 4 {
		a, b, c, d := m[:n], m[stride:][:n], m[2*stride:][:n], m[3*stride:][:n]
		var s0, s1, s2, s3 S
		for i, x := range v {
			s0 += S(a[i]) * S(x)
			s1 += S(b[i]) * S(x)
			s2 += S(c[i]) * S(x)
			s3 += S(d[i]) * S(x)
		}
		out[0], out[1], out[2], out[3] = s0, s1, s2, s3
		if out = out[4:]; len(out) > 0 {
			m = m[4*stride:]
		}
	}
	for r := range out {
		var sum S
		for i, x := range m[r*stride:][:n] {
			sum += S(x) * S(v[i])
		}
		out[r] = sum
	}
}

// ProductTransposed returns a b^T for matrices whose rows have n elements.
func ProductTransposed[F Float](a, b []F, n int) []F {
	rows := len(b) / n
	c := make([]F, len(a)/n*rows)
	for i := range len(a) / n {
		Products(c[i*rows:][:rows], b, n, a[i*n:][:n])
	}
	return c
}

// Transposed returns the transpose of a matrix whose rows have n elements.
func Transposed[F Float](a []F, n int) (b []F) {
	for c := range n {
		for i := c; i < len(a); i += n {
			b = append(b, a[i])
		}
	}
	return b
}

// AddTransposed adds m^T v to out, m [len(v), len(out)], row by row, as Axpy of each does: four rows at once, for
// which an element is read and written once.
func AddTransposed[F Float](out, m, v []F) {
	n := len(out)
	for ; len(v) >= 4; m, v = m[4*n:], v[4:] {
		a, b, c, d := m[:n], m[n:][:n], m[2*n:][:n], m[3*n:][:n]
		va, vb, vc, vd := v[0], v[1], v[2], v[3]
		for i, x := range out {
			x += va * a[i]
			x += vb * b[i]
			x += vc * c[i]
			x += vd * d[i]
			out[i] = x
		}
	}
	for i, vi := range v {
		Axpy(out, vi, m[i*n:][:n])
	}
}

// AddOuters adds a^T b to m, the outer products of the rows of a and b, of which there are so many: one after the
// other, as AddOuter of each does.
func AddOuters[F Float](m, a, b []F, rows int) {
	if rows == 0 {
		return
	}
	n, width := len(a)/rows, len(b)/rows
	column := make([]F, rows)
	for i := range n {
		for t := range column {
			column[t] = a[t*n+i]
		}
		AddTransposed(m[i*width:][:width], b, column)
	}
}

// AddOuter adds a b^T to m [len(a), len(b)].
func AddOuter[F Float](m, a, b []F) {
	for i, ai := range a {
		Axpy(m[i*len(b):][:len(b)], ai, b)
	}
}

// Times returns p v.
func Times[F Float](p F, v []F) []F {
	out := make([]F, len(v))
	for i, x := range v {
		out[i] = p * x
	}
	return out
}

// Dot returns the sum of products.
func Dot[F Float](a, b []F) F {
	var sum F
	b = b[:len(a)] // one check of bounds here, none in the loop
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// Axpy adds a x to dst.
func Axpy[F Float](dst []F, a F, x []F) {
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] += a * v
	}
}

// TermsOf is the size of the terms of a dot product.
func TermsOf(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * v * b[i] * b[i]
	}
	return math.Sqrt(sum)
}

// Halves separates rows of two halves, n elements each.
func Halves[F Float](both []F, n int) (a, b []F) {
	a, b = make([]F, 0, len(both)/2), make([]F, 0, len(both)/2)
	for ; len(both) > 0; both = both[2*n:] {
		a, b = append(a, both[:n]...), append(b, both[n:2*n]...)
	}
	return a, b
}

// InterleaveRows is the inverse: rows of a and b, I elements each, in turn.
func InterleaveRows[F Float](a, b []F, I int) []F {
	both := make([]F, 0, len(a)+len(b))
	for ; len(a) > 0; a, b = a[I:], b[I:] {
		both = append(append(both, a[:I]...), b[:I]...)
	}
	return both
}

// SwiGLU returns gate*s(gate)*up.
func SwiGLU[F Float](gate, up []F) []F {
	y := make([]F, len(gate))
	for i, g := range gate {
		y[i] = g * Sigmoid(g) * up[i]
	}
	return y
}

// SwiGLUGradient returns dy*up*(s + gate*s*(1-s)) and dy*gate*s.
func SwiGLUGradient[F Float](dy, gate, up []F) (dgate, dup []F) {
	dgate, dup = make([]F, len(gate)), make([]F, len(gate))
	for i, g := range gate {
		s := Sigmoid(g)
		dgate[i] = dy[i] * up[i] * (s + g*s*(1-s))
		dup[i] = dy[i] * g * s
	}
	return dgate, dup
}

// Sigmoid never overflows to NaN: exp of a large number is +Inf, and 1/(1+Inf) is 0.
func Sigmoid[F Float](g F) F { return 1 / (1 + F(math.Exp(float64(-g)))) }

// SigmoidTerms is by how much larger the relative error of a sigmoid is than that of its argument and of what else is
// computed: an exponential multiplies the rounding of what it is taken of by that. From 17 on float32 has no number
// between a sigmoid and 1, and nothing is left of it.
func SigmoidTerms(a float64) float64 {
	if a > 32 {
		return 1
	}
	return 1 + math.Abs(a)
}

// Gate returns what the sigmoid of an activation is taken of, and the slope of that. The activation is its argument
// times the sigmoid.
func Gate[F Float](activation string, x F) (of, slope F) {
	if activation != core.GELUTanh {
		return x, 1
	}
	k, cube := F(2*math.Sqrt(2/math.Pi)), F(0.044715)
	return k * (x + cube*x*x*x), k * (1 + 3*cube*x*x)
}

// SiluTerms is the size of the terms of silu's derivative s + g*s*(1-s).
func SiluTerms(g float64) float64 {
	s := 1 / (1 + math.Exp(-g))
	return math.Hypot(s, g*s*(1-s))
}
