package kerneltest

import (
	"math"

	"github.com/seed98097648/tune/core"
)

// attentionTerms: a score's gradient p*(dp - delta) is 0 for a query with one key, and
// those of a query add up to 0. An exponential multiplies the rounding of a score by that,
// which the reference does not show, because its scores are float64.
func (in *inputs) attentionTerms(pass core.Pass, output string) []float64 {
	f, q, k, v, dy := in.Facts, in.wide("q"), in.wide("k"), in.wide("v"), in.wide("dy")
	d, H, KV := f.HeadDim, f.Heads, f.KVHeads
	keys, scale := in.byName["keys"][0].Int32s(), 1/math.Sqrt(float64(f.HeadDim))
	sums := max(1, math.Sqrt(float64(f.HeadDim))/4) // a running sum of d terms is rounded d times, on its way
	y, lse, dq, dk, dv := make(squares, len(q)), make([]float64, in.Tokens*H), make(squares, len(q)), make(squares, len(k)), make(squares, len(k))
	for i := range lse { // of token i/H
		t, h := i/H, i%H
		g := h / (H / KV)
		first, end := int(keys[2*t]), int(keys[2*t+1])
		if first == end {
			continue
		}
		qt, dyt, at := q[i*d:][:d], dy[i*d:][:d], func(j int) int { return (j*KV + g) * d }
		s, dp, sharp := make([]float64, end-first), make([]float64, end-first), 1.0
		for j := range s {
			n := at(first + j)
			s[j] = dotOf(qt, k[n:][:d]) * scale
			dp[j] = termsOf(dyt, v[n:][:d])
			size := max(math.Abs(s[j]), sums*termsOf(qt, k[n:][:d])*scale)
			lse[i], sharp = max(lse[i], size), max(sharp, size)
		}
		p, delta := softmaxOf(s), 0.0
		for j := range p {
			delta += p[j] * dp[j]
		}
		for j := range p {
			n, pj := at(first+j), p[j]*sharp
			ds := pj * (dp[j] + delta) * scale
			for c := range d {
				y.add(i*d+c, pj*v[n+c])
				dq.add(i*d+c, ds*k[n+c])
				dk.add(n+c, ds*qt[c])
				dv.add(n+c, pj*dyt[c])
			}
		}
	}
	if pass == core.Forward && output == "lse" {
		return lse
	}
	return map[string]squares{"y": y, "dq": dq, "dk": dk, "dv": dv}[output].roots()
}

func dotOf(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// termsOf is the size of the terms of a dot product.
func termsOf(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * v * b[i] * b[i]
	}
	return math.Sqrt(sum)
}

// lossTerms: with one word in the vocabulary, or one that is as good as certain, the loss
// and its gradients are 0.
func (in *inputs) lossTerms(pass core.Pass, output string) []float64 {
	x, weight, labels := in.wide("x"), in.wide("weight"), in.byName["labels"][0].Int32s()
	dlosses, D, V := in.wide("dlosses"), in.Facts.Dim, in.Facts.Vocab
	losses, dx, dweight := make([]float64, len(labels)), make(squares, len(x)), make(squares, len(weight))
	z := make([]float64, V)
	for t, y := range labels {
		if y < 0 {
			continue
		}
		xt := x[t*D:][:D]
		for v := range z {
			z[v] = dotOf(weight[v*D:][:D], xt)
			losses[t] = max(losses[t], math.Abs(z[v]), termsOf(weight[v*D:][:D], xt))
		}
		if pass == core.Forward || output == "losses" {
			continue
		}
		p := softmaxOf(z)
		p[y]++
		for v := range p {
			dz := p[v] * math.Abs(dlosses[t])
			for i := range D {
				dx.add(t*D+i, dz*weight[v*D+i])
				dweight.add(v*D+i, dz*xt[i])
			}
		}
	}
	switch output {
	case "dx":
		return dx.roots()
	case "dweight":
		return dweight.roots()
	}
	return losses
}
