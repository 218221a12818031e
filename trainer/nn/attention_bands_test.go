package nn

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// longKeys are those of two rows of s tokens: documents one after the other, a query that sees none, and some that see
// what comes after them; and all that came before, but for one query that sees the last key alone.
func longKeys(s int) []int32 {
	keys := make([]int32, 4*s)
	for i := range s {
		first, end := i/250*250, i+1
		switch {
		case i%97 == 5:
			end = first
		case i%31 == 7:
			end = min(s, i+40)
		}
		keys[2*i], keys[2*i+1] = int32(first), int32(end)
		keys[2*(s+i)], keys[2*(s+i)+1] = int32(s), int32(s+i+1)
	}
	keys[2*(s+3)], keys[2*(s+3)+1] = int32(2*s-1), int32(2*s)
	return keys
}

// longAttention is attention over rows that are cut into bands, and these into terms.
type longAttention struct {
	s, heads, kv, c  int
	keys             []int32
	q, k, v, dy      []float32
	y, p, dq, dk, dv []float32
}

func newLongAttention(s int) *longAttention {
	const heads, kv, c = 4, 2, 5
	rng := newRand(7)
	a := &longAttention{s: s, heads: heads, kv: kv, c: c, keys: longKeys(s)}
	a.q, a.dy = normal(rng, 2*s*heads*c), normal(rng, 2*s*heads*c)
	a.k, a.v = normal(rng, 2*s*kv*c), normal(rng, 2*s*kv*c)
	return a
}

// run computes everything, with so many threads.
func (a *longAttention) run(t *testing.T, threads int) {
	t.Helper()
	simd.SetThreads(threads)
	defer simd.SetThreads(0)
	op := attentionOp(2, a.s, AttentionConfig{Heads: a.heads, KVHeads: a.kv, HeadDim: a.c})
	tensor := func(x []float32, shape ...int) core.Tensor {
		y := core.NewTensor(core.Float32, shape...)
		for i := range y.Float32s() {
			y.Float32s()[i] = float32(math.NaN()) // what is not written shows
		}
		copy(y.Float32s(), x)
		return y
	}
	query := func(x []float32) core.Tensor { return tensor(x, 2*a.s, a.heads, a.c) }
	key := func(x []float32) core.Tensor { return tensor(x, 2*a.s, a.kv, a.c) }
	keys := core.NewTensor(core.Int32, 2*a.s, 2)
	copy(keys.Int32s(), a.keys)
	in := []core.Tensor{query(a.q), key(a.k), key(a.v), keys}
	out := []core.Tensor{query(nil), tensor(nil, 2, a.heads, a.s, a.s)}
	g := &autograd.Grads{In: in, Out: out, DOut: []core.Tensor{query(a.dy)}, DIn: []core.Tensor{query(nil), key(nil), key(nil)},
		Scratch: []core.Tensor{tensor(nil, 2, a.heads, a.s, a.s)}}
	if err := op.Forward(context.Background(), in, out); err != nil {
		t.Fatal(err)
	}
	if err := op.Backward.Run(context.Background(), g); err != nil {
		t.Fatal(err)
	}
	a.y, a.p = out[0].Float32s(), out[1].Float32s()
	a.dq, a.dk, a.dv = g.DIn[0].Float32s(), g.DIn[1].Float32s(), g.DIn[2].Float32s()
}

// want computes y, dq, dk and dv in float64, by the formulas.
func (a *longAttention) want() (y, dq, dk, dv []float64) {
	y, dq = make([]float64, len(a.q)), make([]float64, len(a.q))
	dk, dv = make([]float64, len(a.k)), make([]float64, len(a.k))
	dot := func(x, z []float32) (sum float64) {
		for i := range x {
			sum += float64(x[i]) * float64(z[i])
		}
		return sum
	}
	scale := 1 / math.Sqrt(float64(a.c))
	for r := range 2 * a.s * a.heads {
		t, group := r/a.heads, r%a.heads/(a.heads/a.kv)
		q, d := a.q[r*a.c:][:a.c], a.dy[r*a.c:][:a.c]
		first, end := int(a.keys[2*t]), int(a.keys[2*t+1])
		p, dp := make([]float64, end-first), make([]float64, end-first)
		total, delta := 0.0, 0.0
		at := func(j int) int { return ((first+j)*a.kv + group) * a.c }
		for j := range p {
			p[j] = math.Exp(scale * dot(q, a.k[at(j):][:a.c]))
			total += p[j]
		}
		for j := range p {
			p[j] /= total
			dp[j] = dot(d, a.v[at(j):][:a.c])
			delta += p[j] * dp[j]
		}
		for j := range p {
			ds := p[j] * (dp[j] - delta) * scale
			for i := range a.c {
				y[r*a.c+i] += p[j] * float64(a.v[at(j)+i])
				dq[r*a.c+i] += ds * float64(a.k[at(j)+i])
				dk[at(j)+i] += ds * float64(q[i])
				dv[at(j)+i] += p[j] * float64(d[i])
			}
		}
	}
	return y, dq, dk, dv
}

// TestAttentionOfLongRowsAgreesWithFloat64 has rows of several bands, and more tokens than are multiplied at a time.
func TestAttentionOfLongRowsAgreesWithFloat64(t *testing.T) {
	a := newLongAttention(bandTerms + bandTokens + 5)
	a.run(t, 2)
	y, dq, dk, dv := a.want()
	for _, x := range []struct {
		name string
		got  []float32
		want []float64
	}{{"y", a.y, y}, {"dq", a.dq, dq}, {"dk", a.dk, dk}, {"dv", a.dv, dv}} {
		for i, want := range x.want {
			if got := float64(x.got[i]); !(math.Abs(got-want) <= 0x1p-16*(1+math.Abs(want))) {
				t.Fatalf("%s[%d] is %v, want %v", x.name, i, got, want)
			}
		}
	}
}

func TestAttentionHasTheSameBitsWithAnyNumberOfThreads(t *testing.T) {
	one, three := newLongAttention(2*bandTokens+9), newLongAttention(2*bandTokens+9)
	one.run(t, 1)
	three.run(t, 3)
	for name, x := range map[string][2][]float32{"y": {one.y, three.y}, "p": {one.p, three.p}, "dq": {one.dq, three.dq},
		"dk": {one.dk, three.dk}, "dv": {one.dv, three.dv}} {
		if !slices.Equal(x[0], x[1]) {
			t.Errorf("%s differs", name)
		}
	}
}
