package kerneltest

import (
	"math"

	"github.com/seed98097648/tune/core"
)

// terms returns, for each element of an output, the size of the terms that it is the sum
// of: the root of the sum of their squares, which is how independent roundings of them add
// up. Where terms cancel, the result is much smaller, and an error as large as theirs is
// no mistake of the kernel; elsewhere the two are about alike. nil means that the op adds
// nothing up there.
//
// The sums are those of package reference. Where it multiplies a sum by something, its
// terms are multiplied, and count as the terms of the product.
func (in *inputs) terms(pass core.Pass, output string) []float64 {
	switch in.Op {
	case core.RMSNorm:
		return in.normTerms(pass, output, in.wide("x"))
	case core.AddRMSNorm:
		if pass == core.Forward {
			return nil
		}
		return in.normTerms(pass, output, in.wide("h"))
	case core.SwiGLU:
		return in.swigluTerms(output)
	case core.RoPE:
		return in.ropeTerms(pass, output)
	case core.MoEGate:
		return in.gateTerms(pass)
	case core.MoEExperts:
		return in.expertTerms(output)
	case core.Attention:
		return in.attentionTerms(pass, output)
	case core.LinearCrossEntropy:
		return in.lossTerms(pass, output)
	}
	return nil
}

// wide returns an input in float64, nil if there is none.
func (in *inputs) wide(name string) []float64 {
	if len(in.byName[name]) == 0 {
		return nil
	}
	return values(in.byName[name][0])
}

// squares are sums of squares; roots makes them what terms returns.
type squares []float64

func (s squares) add(at int, v float64) { s[at] += v * v }

func (s squares) roots() []float64 {
	for i, v := range s {
		s[i] = math.Sqrt(v)
	}
	return s
}

func (in *inputs) normTerms(pass core.Pass, output string, x []float64) []float64 {
	if pass == core.Forward {
		return nil
	}
	f, dy, dh, weight := in.Facts, in.wide("dy"), in.wide("dh"), in.wide("weight")
	D := f.Dim
	dx, dweight := make([]float64, len(x)), make(squares, D)
	for from := 0; from < len(x); from += D {
		sum := 0.0
		for _, v := range x[from : from+D] {
			sum += v * v
		}
		r := 1 / math.Sqrt(sum/float64(D)+f.Eps)
		mean := 0.0 // of |g*n|
		for i := range D {
			mean += math.Abs(dy[from+i]*(float64(f.Offset)+weight[i])*x[from+i]*r) / float64(D)
		}
		for i := range D {
			n, g := x[from+i]*r, dy[from+i]*(float64(f.Offset)+weight[i])
			dx[from+i] = r * math.Hypot(g, n*mean)
			if dh != nil {
				dx[from+i] = math.Hypot(dx[from+i], dh[from+i])
			}
			dweight.add(i, dy[from+i]*n)
		}
	}
	if output == "dx" {
		return dx
	}
	return dweight.roots()
}

// swigluTerms: dgate vanishes near -1.28, where the two terms of silu's derivative cancel.
// An exponential multiplies the rounding of what it is taken of by that.
func (in *inputs) swigluTerms(output string) []float64 {
	gate, up, dy := in.wide("gate"), in.wide("up"), in.wide("dy")
	if in.Facts.Layout == core.Packed {
		gate, up = halves(in.wide("gate_up"), in.Facts.Intermediate)
	}
	y, dgate, dup := make([]float64, len(gate)), make([]float64, len(gate)), make([]float64, len(gate))
	for i, g := range gate {
		silu := math.Abs(g / (1 + math.Exp(-g)))
		y[i] = math.Abs(up[i]) * silu * (1 + math.Abs(g))
		dgate[i] = math.Abs(dy[i]*up[i]) * siluTerms(g) * (1 + math.Abs(g))
		dup[i] = math.Abs(dy[i]) * silu * (1 + math.Abs(g))
	}
	switch {
	case output == "dgate_up":
		I, both := in.Facts.Intermediate, []float64(nil)
		for at := 0; at < len(dgate); at += I {
			both = append(append(both, dgate[at:at+I]...), dup[at:at+I]...)
		}
		return both
	case output == "dgate":
		return dgate
	case output == "dup":
		return dup
	}
	return y
}

// halves separates rows of two halves, n elements each.
func halves(both []float64, n int) (a, b []float64) {
	for ; len(both) > 0; both = both[2*n:] {
		a, b = append(a, both[:n]...), append(b, both[n:2*n]...)
	}
	return a, b
}

// siluTerms is the size of the terms of silu's derivative s + g*s*(1-s).
func siluTerms(g float64) float64 {
	s := 1 / (1 + math.Exp(-g))
	return math.Hypot(s, g*s*(1-s))
}

func (in *inputs) ropeTerms(pass core.Pass, output string) []float64 {
	name := map[string]string{"q_out": "q", "k_out": "k", "dq": "dq_out", "dk": "dk_out"}[output]
	f, x, cos, sin := in.Facts, in.wide(name), in.wide("cos"), in.wide("sin")
	half, positions := f.RotaryDim/2, in.byName["positions"][0].Int32s()
	per := len(x) / max(len(positions), 1)
	for t, p := range positions {
		for h := 0; h < per; h += f.HeadDim {
			head := x[t*per+h:][:f.HeadDim]
			for i := range half {
				a, b := i, i+half
				if f.Pairing == core.Interleaved {
					a, b = 2*i, 2*i+1
				}
				c, s := cos[int(p)*half+i], sin[int(p)*half+i]
				head[a], head[b] = math.Hypot(head[a]*c, head[b]*s), math.Hypot(head[b]*c, head[a]*s)
			}
		}
	}
	return x
}

// gateTerms: the gradients of all logits of a token add up to 0, and are 0 where there is
// but one choice.
func (in *inputs) gateTerms(pass core.Pass) []float64 {
	if pass == core.Forward {
		return nil
	}
	f, logits, dweights, ids := in.Facts, in.wide("logits"), in.wide("drouting_weights"), in.byName["expert_ids"][0].Int32s()
	E, K := f.Experts, f.TopK
	all := make([]float64, len(logits))
	for t := range in.Tokens {
		scores, kept := softmaxOf(logits[t*E:][:E]), 1e-20
		if f.Scoring == core.ScoringSigmoid {
			for e, z := range logits[t*E:][:E] {
				scores[e] = 1 / (1 + math.Exp(-z))
			}
		}
		for _, e := range ids[t*K:][:K] {
			kept += scores[e]
		}
		mean, dscores := 0.0, make([]float64, E)
		for k, e := range ids[t*K:][:K] {
			mean += math.Abs(dweights[t*K+k]) * f.Scale * scores[e] / kept
		}
		for k, e := range ids[t*K:][:K] {
			d := math.Abs(dweights[t*K+k]) * f.Scale
			if f.Normalize {
				d = (d + mean) / kept
			}
			dscores[e] += d
		}
		total := 0.0
		for e, p := range scores {
			total += dscores[e] * p
		}
		for e, p := range scores {
			if all[t*E+e] = p * dscores[e]; f.Scoring == core.ScoringSoftmax {
				all[t*E+e] += p * total
			}
		}
	}
	return all
}

// softmaxOf returns the softmax of z.
func softmaxOf(z []float64) []float64 {
	high, sum := math.Inf(-1), 0.0
	for _, v := range z {
		high = max(high, v)
	}
	p := make([]float64, len(z))
	for i, v := range z {
		p[i] = math.Exp(v - high)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}
