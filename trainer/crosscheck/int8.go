package crosscheck

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// linearW8A8 compares every element. Sums of whole numbers are exact, and what a kernel does with one is three roundings
// and the addition of the bias.
func linearW8A8(c *core.Call) []worst {
	f := c.Facts
	p := simd.W8A8{M: c.Tokens(), N: f.Out, K: f.Dim, X: c.Input("x").Float32s(), Weight: c.Input("weight").Int8s(),
		Y: make([]float32, c.Tokens()*f.Out)}
	if f.Scaling == core.StaticScaling {
		p.Static, p.InputScale = true, c.Input("input_scale").Float32s()[0]
		p.InputOffset, p.QuantBias = c.Input("input_offset").Int32s()[0], c.Input("quant_bias").Int32s()
		p.Scale = c.Input("deq_scale").Float32s()
	} else if p.Scale = c.Input("weight_scale").Float32s(); f.Bias {
		p.Bias = c.Input("bias").Float32s()
	}
	p.Multiply()
	found, y := named("y"), c.Output("y").Float32s()
	each(found, p.M, p.N, func(lo, hi int, found []worst) {
		for i := lo * p.N; i < hi*p.N; i++ {
			size := math.Abs(float64(p.Y[i]))
			if p.Bias != nil {
				size += 2 * math.Abs(float64(p.Bias[i%p.N])) // which may have cancelled as much
			}
			found[0].see(i, float64(y[i]), float64(p.Y[i]), within(4*unit, size))
		}
	})
	return found
}

// sharedExpertFFN compares every element. Its first product is exact; h has the error of an exponential, and where that
// decides which whole number an element of h becomes, y may be off by what one of them makes.
func sharedExpertFFN(c *core.Call) []worst {
	f, tokens := c.Facts, c.Tokens()
	g, h := make([]float32, tokens*f.Intermediate), make([]float32, tokens*f.Intermediate)
	gate, up := int8Halves(c)
	for _, part := range []struct {
		half int8Rows
		y    []float32
	}{{gate, g}, {up, h}} {
		p := simd.W8A8{M: tokens, N: f.Intermediate, K: f.Dim, X: c.Input("x").Float32s(), Weight: part.half.weight,
			Scale: part.half.scale, Y: part.y}
		p.Multiply()
	}
	for i, g := range g {
		h[i] = float32(float64(g) / (1 + math.Exp(-float64(g))) * float64(h[i]))
	}
	down, scale := c.Input("down").Int8s(), c.Input("down_scale").Float32s()
	p := simd.W8A8{M: tokens, N: f.Dim, K: f.Intermediate, X: h, Weight: down, Scale: scale, Y: make([]float32, tokens*f.Dim)}
	p.Multiply()
	found, y := named("y"), c.Output("y").Float32s()
	each(found, tokens, f.Dim, func(lo, hi int, found []worst) {
		for t := lo; t < hi; t++ {
			from := t * f.Intermediate
			s, off, undecided := borders(g[from:from+f.Intermediate], h[from:from+f.Intermediate])
			for d := range f.Dim {
				moved := 0.0
				for _, i := range undecided {
					moved += math.Abs(float64(down[d*f.Intermediate+i]))
				}
				want := float64(p.Y[t*f.Dim+d])
				limit := within(few+off, math.Abs(want)) + moved*s*math.Abs(float64(scale[d]))
				found[0].see(t*f.Dim+d, float64(y[t*f.Dim+d]), want, limit)
			}
		}
	})
	return found
}

// int8Rows is a weight and what its rows are multiplied by.
type int8Rows struct {
	weight []int8
	scale  []float32
}

// int8Halves finds gate and up in either layout.
func int8Halves(c *core.Call) (gate, up int8Rows) {
	if c.Facts.Layout == core.Separate {
		return int8Rows{c.Input("gate").Int8s(), c.Input("gate_scale").Float32s()},
			int8Rows{c.Input("up").Int8s(), c.Input("up_scale").Float32s()}
	}
	both, scale, i := c.Input("gate_up").Int8s(), c.Input("gate_up_scale").Float32s(), c.Facts.Intermediate
	return int8Rows{both[:i*c.Facts.Dim], scale[:i]}, int8Rows{both[i*c.Facts.Dim:], scale[i:]}
}

// borders returns the scale that a token's h has as int8, its relative error, and which elements are so near the middle
// between two of its multiples that their error decides. Three roundings of the gate become 1+|g| as many in silu.
func borders(g, h []float32) (scale, relative float64, undecided []int) {
	off := func(i int) float64 { return few + 4*unit*(1+math.Abs(float64(g[i]))) }
	most := 0
	for i, v := range h {
		if math.Abs(float64(v)) > math.Abs(float64(h[most])) {
			most = i
		}
	}
	scale, relative = math.Abs(float64(h[most]))/127, off(most)
	for i, v := range h {
		quotient := math.Abs(float64(v)) / scale
		if beyond := quotient - math.Floor(quotient); math.Abs(beyond-0.5) <= quotient*(off(i)+relative) {
			undecided = append(undecided, i)
		}
	}
	return scale, relative, undecided
}
