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

// linearBorders: u and v are sums in float32, which are rounded before they are multiplied.
func linearBorders(in *opdef.Inputs, _ core.Pass, output string) []float64 {
	if in.Facts.Products != core.BFloat16 || in.Facts.Rank == 0 || output == "dweight" || output == "dbias" {
		return nil
	}
	l := linearInputs[float64]{Facts: in.Facts}
	for name, to := range l.named() {
		*to = in.Wide(name)
	}
	l.prepare()
	D, N, R := l.Dim, l.Out, l.Rank
	size := map[string]int{"y": in.Tokens * N, "dx": in.Tokens * D, "dlora_a": R * D, "dlora_b": N * R}
	moved := make([]float64, size[output])
	for t := range in.Tokens {
		for r := range R {
			ofU := l.border(D, func(d int) float64 { return l.a[r*D+d] * l.x[t*D+d] })
			ofV := l.border(N, func(n int) float64 { return l.b[n*R+r] * l.dy[t*N+n] })
			switch output {
			case "y":
				for n := range N {
					moved[t*N+n] += ofU * math.Abs(l.b[n*R+r])
				}
			case "dlora_b":
				for n := range N {
					moved[n*R+r] += ofU * math.Abs(l.dy[t*N+n])
				}
			case "dx":
				for d := range D {
					moved[t*D+d] += ofV * math.Abs(l.a[r*D+d])
				}
			case "dlora_a":
				for d := range D {
					moved[r*D+d] += ofV * math.Abs(l.x[t*D+d])
				}
			}
		}
	}
	return moved
}

// border returns how far apart the numbers of bfloat16 are that scale times a sum of n terms may be rounded to
// after it was computed in float32: 0, unless it lies in the middle between two. Roundings are as often up as
// down, so that their sum is beyond 4 sqrt(n) of the largest next to never.
func (in *linearInputs[F]) border(n int, term func(i int) float64) float64 {
	sum, squares := 0.0, 0.0
	for i := range n {
		v := in.Scale * term(i)
		sum, squares = sum+v, squares+v*v
	}
	off := 4 * math.Sqrt(float64(n)) * 0x1p-24 * (math.Abs(sum) + math.Sqrt(squares))
	ends := []float64{sum - off, sum + off}
	opdef.RoundBFloat16(ends)
	if apart := ends[1] - ends[0]; apart > 0 && !math.IsInf(apart, 1) {
		return apart
	}
	return 0
}
