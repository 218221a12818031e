package crosscheck

import (
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

const (
	// mostLogits is how many of them are in memory at a time, unless a few tokens have more.
	mostLogits = 2 << 20
	// sampled is one of how many tokens has its loss compared where nothing else is: each has
	// its own logits, which are as much work as the kernel's whole forward pass.
	sampled  = 4
	allBelow = 64 // tokens are compared whatever it is
)

// loss is one call of linear_cross_entropy. The logits of its tokens, z = weight x, are
// computed as they are in the plain forward, some tokens at a time. Of token t each has an
// error of at most |x|*max|weight|*2*rounding(D), in the kernel and here together, so that
// p = exp(z - lse) is exact to exp(e) - 1 with e twice that. dz = dloss*(p - [v = label]).
type loss struct {
	c          *core.Call
	x, dlosses []float32 // dlosses is nil for forward
	weight     core.Tensor
	labels     []int32
	most       float64 // the largest norm of a row of weight

	r       []float32 // directions [D]
	weightR []float32 // weight r [V, directions]
	dx      []float32 // r of dx [T, directions]
	dxMax   []float64 // its limits
	dweight []float32 // r of dweight, and the limit of its row [V, directions+1]
	p       []float32 // room for the logits of a block
	found   []worst
}

func crossEntropy(c *core.Call) []worst {
	f, tokens := c.Facts, c.Tokens()
	l := &loss{c: c, x: c.Input("x").Float32s(), weight: c.Input("weight"), labels: c.Input("labels").Int32s(),
		found: named("losses")}
	var counted []int
	for t, y := range l.labels {
		if y >= 0 {
			if c.Pass == core.Backward || tokens < allBelow || inSample(t) {
				counted = append(counted, t)
			}
			continue
		}
		l.found[0].see(t, float64(c.Output("losses").Float32s()[t]), 0, 0)
	}
	l.most = slices.Max(rowNorms(l.weight, 0, f.Vocab, f.Dim))
	if c.Pass == core.Backward {
		l.dlosses, l.r = c.Input("dlosses").Float32s(), random(f.Dim)
		l.weightR = along(operand(l.weight, 0, f.Dim), f.Vocab, f.Dim, l.r)
		l.dx, l.dxMax = make([]float32, tokens*directions), make([]float64, tokens)
		l.dweight = make([]float32, f.Vocab*(directions+1))
	}
	n := lossTokens(f.Vocab)
	for ; len(counted) > 0; counted = counted[min(n, len(counted)):] {
		l.compare(counted[:min(n, len(counted))])
	}
	if l.dlosses != nil {
		l.compareGradients()
	}
	return l.found
}

// lossTokens returns how many tokens have their logits in memory at a time.
func lossTokens(vocab int) int { return min(256, max(32, mostLogits/vocab)) }

// inSample picks the tokens whose digits, to the base of sampled, add up to a multiple of it:
// one in so many, and in some block every place of a block of any power of it.
func inSample(t int) bool {
	sum := 0
	for ; t > 0; t /= sampled {
		sum += t % sampled
	}
	return sum%sampled == 0
}

// compare judges the losses of some tokens, and adds their part to the gradients.
func (l *loss) compare(tokens []int) {
	f := l.c.Facts
	n, d, v := len(tokens), f.Dim, f.Vocab
	if l.p == nil { // the first block is the largest
		l.p = make([]float32, n*v)
	}
	x, p := make([]float32, n*d), l.p[:n*v]
	for i, t := range tokens {
		copy(x[i*d:], l.x[t*d:][:d])
	}
	simd.Multiply(simd.Product{M: n, N: v, K: d, A: dense(x, d), B: operand(l.weight, 0, d), TransB: true, C: p,
		StrideC: v})
	losses, errs := l.c.Output("losses").Float32s(), make([]float64, n)
	each(l.found[:1], n, v, func(lo, hi int, found []worst) {
		for i := lo; i < hi; i++ {
			row := p[i*v:][:v]
			z := float64(row[l.labels[tokens[i]]])
			high := simd.Max(row)
			sum := simd.ExpSum(row, row, 1, high)
			simd.Scale(row, row, float32(1/sum))
			lse := float64(high) + math.Log(sum)
			e := 2 * norm2(x[i*d:][:d]) * l.most * (2*rounding(d) + 2*unit)
			found[0].see(tokens[i], float64(losses[tokens[i]]), lse-z,
				within(1, e+2*rounding(v)+few*(1+math.Abs(lse)+math.Abs(z))))
			errs[i] = math.Expm1(e) + 2*rounding(v) + few
		}
	})
	if l.dlosses != nil {
		l.add(tokens, x, p, errs)
	}
}

// add adds what some tokens are in the gradients, along the directions: the p of each
// token, exact to errs, times what it is multiplied by, less the same for its label.
func (l *loss) add(tokens []int, x, p []float32, errs []float64) {
	f, v := l.c.Facts, l.c.Facts.Vocab
	const wide = directions + 1 // what it is multiplied by, and its limit
	dx, xr := along(dense(p, v), len(tokens), v, l.weightR), along(dense(x, f.Dim), len(tokens), f.Dim, l.r)
	terms := make([]float32, len(tokens)*wide)
	for i, t := range tokens {
		dloss, label := l.dlosses[t], int(l.labels[t])
		for m := range directions {
			l.dx[t*directions+m] = dloss * (dx[i*directions+m] - l.weightR[label*directions+m])
			terms[i*wide+m] = dloss * xr[i*directions+m]
		}
		size := math.Abs(float64(dloss)) * (errs[i] + 4*rounding(f.Dim))
		l.dxMax[t] = within(2*l.most, size)
		terms[i*wide+directions] = float32(norm2(x[i*f.Dim:][:f.Dim]) * (size +
			2*math.Abs(float64(dloss))*rounding(len(l.labels))))
	}
	if f.Frozen {
		return
	}
	simd.Multiply(simd.Product{M: v, N: wide, K: len(tokens), A: dense(p, v), TransA: true, B: dense(terms, wide),
		C: l.dweight, StrideC: wide, Accumulate: true})
	for i, t := range tokens {
		row, label := terms[i*wide:][:wide], l.dweight[int(l.labels[t])*wide:][:wide]
		for m := range directions {
			label[m] -= row[m]
		}
		label[directions] += row[directions]
	}
}

// compareGradients judges them, when all tokens have been added.
func (l *loss) compareGradients() {
	d := l.c.Facts.Dim
	found := named("dx")
	seeRows(found, l.c.Output("dx"), d, l.r, l.dx, func(t int) float64 { return l.dxMax[t] })
	if !l.c.Facts.Frozen {
		rows, want := named("dweight"), make([]float32, l.c.Facts.Vocab*directions)
		for v := range l.c.Facts.Vocab {
			copy(want[v*directions:][:directions], l.dweight[v*(directions+1):])
		}
		seeRows(rows, l.c.Output("dweight"), d, l.r, want,
			func(v int) float64 { return within(1, float64(l.dweight[v*(directions+1)+directions])) })
		found = append(found, rows...)
	}
	l.found = append(l.found, found...)
}
