package crosscheck

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
)

// swiglu compares y = g*s*up, with s = 1/(1+exp(-g)), and the gradients. A kernel may
// compute s with an error relative to 1, as through a tanh, so the size of a term is that
// with 1 for s.
func swiglu(c *core.Call) ([]worst, error) {
	width := c.Facts.Intermediate
	rows := c.Tokens()
	gate, up := halves(c.Inputs, c.Facts, "")
	if c.Pass == core.Forward {
		found, y := named("y"), c.Output("y").Float32s()
		each(found, rows, width, func(lo, hi int, found []worst) {
			for i := lo * width; i < hi*width; i++ {
				g, u := float64(gate.at(i)), float64(up.at(i))
				found[0].see(i, float64(y[i]), g/(1+math.Exp(-g))*u, within(few, math.Abs(g*u)))
			}
		})
		return found, nil
	}
	dgate, dup := halves(c.Outputs, c.Facts, "d")
	found, dy := named(dgate.name, dup.name), c.Input("dy").Float32s()
	each(found, rows, width, func(lo, hi int, found []worst) {
		for i := lo * width; i < hi*width; i++ {
			g, u, d := float64(gate.at(i)), float64(up.at(i)), float64(dy[i])
			s := 1 / (1 + math.Exp(-g))
			found[0].see(dgate.index(i), float64(dgate.at(i)), d*u*(s+g*s*(1-s)), within(few, math.Abs(d*u)*(1+math.Abs(g))))
			found[1].see(dup.index(i), float64(dup.at(i)), d*g*s, within(few, math.Abs(d*g)))
		}
	})
	return found, nil
}

// half is the gate or the up of swiglu, in either layout.
type half struct {
	name   string
	x      []float32
	width  int // of the half
	packed bool
	second bool
}

// index returns where element i of the half lies in its tensor.
func (h half) index(i int) int {
	if !h.packed {
		return i
	}
	i += i / h.width * h.width
	if h.second {
		i += h.width
	}
	return i
}

func (h half) at(i int) float32 { return h.x[h.index(i)] }

// halves finds gate and up among the tensors whose names begin with prefix.
func halves(tensors func(string) []core.Tensor, f core.Facts, prefix string) (gate, up half) {
	one := func(name string) half {
		return half{name: prefix + name, x: tensors(prefix + name)[0].Float32s(), width: f.Intermediate}
	}
	if f.Layout == core.Separate {
		return one("gate"), one("up")
	}
	gate = one("gate_up")
	gate.packed = true
	up = gate
	up.second = true
	return gate, up
}

// rope compares the rotation by the tables' angles; the gradient is the one by the
// opposite angles.
func rope(c *core.Call) ([]worst, error) {
	names, outputs, sign := [2]string{"q", "k"}, named("q_out", "k_out"), 1.0
	if c.Pass == core.Backward {
		names, outputs, sign = [2]string{"dq_out", "dk_out"}, named("dq", "dk"), -1
	}
	positions, rows := c.Input("positions").Int32s(), c.Input("cos").Shape[0]
	for t, p := range positions {
		if p < 0 || int(p) >= rows {
			return nil, fmt.Errorf("crosscheck: %w: positions[%d] is %d, the tables have %d rows", core.ErrBadCall, t, p, rows)
		}
	}
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
	return outputs, nil
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
