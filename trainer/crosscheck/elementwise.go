package crosscheck

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// swiglu compares y = g*s*up, with s = 1/(1+exp(-a)), where a is g or what gated makes of it, and the gradients. A kernel may
// compute s with an error relative to 1, as through a tanh, so the size of a term is that
// with 1 for s.
func swiglu(c *core.Call) []worst {
	gate, up := halves(c.Inputs, c.Facts, "")
	if c.Pass == core.Forward {
		found, y := named("y"), alone("y", c.Output("y"))
		eachSigmoid(found, c, gate, func(t int, s []float32, found []worst) {
			at, y, up := y.first(t), y.row(t), up.row(t)
			for i, g := range gate.row(t) {
				gu := float64(g) * float64(up[i])
				found[0].see(at+i, float64(y[i]), float64(s[i])*gu, within(few, math.Abs(gu)))
			}
		})
		return found
	}
	dgate, dup := halves(c.Outputs, c.Facts, "d")
	found, dy := named(dgate.name, dup.name), alone("dy", c.Input("dy"))
	eachSigmoid(found, c, gate, func(t int, s []float32, found []worst) {
		dy, up, dg, du := dy.row(t), up.row(t), dgate.row(t), dup.row(t)
		atGate, atUp := dgate.first(t), dup.first(t)
		for i, g32 := range gate.row(t) {
			g, s, d := float64(g32), float64(s[i]), float64(dy[i])
			ofGate, ofUp := d*float64(up[i]), d*g
			_, slope := gated(c.Facts.Activation, g)
			found[0].see(atGate+i, float64(dg[i]), ofGate*(s+g*s*(1-s)*slope),
				within(few, math.Abs(ofGate)*(1+math.Abs(g)*slope)))
			found[1].see(atUp+i, float64(du[i]), ofUp*s, within(few, math.Abs(ofUp)))
		}
	})
	return found
}

// gated returns what the sigmoid of an activation is taken of, and the slope of that: g itself, or for gelu_tanh
// 2 sqrt(2/pi) (g + 0.044715 g^3).
func gated(activation string, g float64) (a, slope float64) {
	if activation != core.GELUTanh {
		return g, 1
	}
	const twice, cube = 2 * 0.7978845608028654, 0.044715
	return twice * (g + cube*g*g*g), twice * (1 + 3*cube*g*g)
}

// eachSigmoid calls f for every token with the sigmoids of its gate.
func eachSigmoid(found []worst, c *core.Call, gate half, f func(t int, s []float32, found []worst)) {
	each(found, c.Tokens(), 4*gate.width, func(lo, hi int, found []worst) {
		s := make([]float32, gate.width)
		for t := lo; t < hi; t++ {
			if c.Facts.Activation == core.GELUTanh {
				for i, g := range gate.row(t) {
					a, _ := gated(c.Facts.Activation, float64(g))
					s[i] = float32(1 / (1 + math.Exp(-a)))
				}
				f(t, s, found)
				continue
			}
			simd.Sigmoid(s, gate.row(t))
			f(t, s, found)
		}
	})
}

// half is the gate or the up of swiglu, in either layout: of token t, width elements from
// t*stride + from on.
type half struct {
	name                string
	x                   []float32
	width, stride, from int
}

// first returns where the half of token t begins in its tensor.
func (h half) first(t int) int { return t*h.stride + h.from }

func (h half) row(t int) []float32 { return h.x[h.first(t):][:h.width] }

// alone is a tensor of its own.
func alone(name string, t core.Tensor) half {
	return half{name, t.Float32s(), t.Shape[1], t.Shape[1], 0}
}

// halves finds gate and up among the tensors whose names begin with prefix.
func halves(tensors func(string) []core.Tensor, f core.Facts, prefix string) (gate, up half) {
	one := func(name string) half { return alone(prefix+name, tensors(prefix + name)[0]) }
	if f.Layout == core.Separate {
		return one("gate"), one("up")
	}
	gate = one("gate_up")
	gate.width = f.Intermediate
	up = gate
	up.from = f.Intermediate
	return gate, up
}

// rope compares the rotation by the tables' angles; the gradient is the one by the
// opposite angles.
func rope(c *core.Call) []worst {
	names, outputs, sign := [2]string{"q", "k"}, named("q_out", "k_out"), 1.0
	if c.Pass == core.Backward {
		names, outputs, sign = [2]string{"dq_out", "dk_out"}, named("dq", "dk"), -1
	}
	positions := c.Input("positions").Int32s()
	for i, heads := range []int{c.Facts.Heads, c.Facts.KVHeads} {
		x, y := c.Input(names[i]).Float32s(), c.Output(outputs[i].tensor).Float32s()
		each(outputs[i:i+1], len(positions), heads*c.Facts.HeadDim, func(lo, hi int, found []worst) {
			for t := lo; t < hi; t++ {
				for h := t * heads; h < (t+1)*heads; h++ {
					rotated(c, x, y, int(positions[t]), h*c.Facts.HeadDim, sign, &found[0])
				}
			}
		})
	}
	return outputs
}

// rotated compares one head, from element at on.
func rotated(c *core.Call, x, y []float32, position, at int, sign float64, found *worst) {
	f, half := c.Facts, c.Facts.RotaryDim/2
	cos, sin := c.Input("cos").Float32s()[position*half:], c.Input("sin").Float32s()[position*half:]
	see := func(i int, first, second float64) {
		found.see(i, float64(y[i]), first+second, within(4*unit, math.Abs(first)+math.Abs(second)))
	}
	for i := range half {
		a, b := at+i, at+i+half
		if f.Pairing == core.Interleaved {
			a, b = at+2*i, at+2*i+1
		}
		co, si := float64(cos[i]), sign*float64(sin[i])
		see(a, float64(x[a])*co, -float64(x[b])*si)
		see(b, float64(x[b])*co, float64(x[a])*si)
	}
	for i := at + f.RotaryDim; i < at+f.HeadDim; i++ {
		found.see(i, float64(y[i]), float64(x[i]), 0)
	}
}
