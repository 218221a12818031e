package reference

import "github.com/seed98097648/tune/core"

func runRoPE[F float](c *core.Call) {
	cos, sin := values[F](c.Input("cos")), values[F](c.Input("sin"))
	positions := c.Input("positions").Int32s()
	names := [2][2]string{{"q", "q_out"}, {"k", "k_out"}}
	if c.Pass == core.Backward {
		names = [2][2]string{{"dq_out", "dq"}, {"dk_out", "dk"}}
		for i := range sin {
			sin[i] = -sin[i]
		}
	}
	for i, heads := range []int{c.Facts.Heads, c.Facts.KVHeads} {
		x := values[F](c.Input(names[i][0]))
		rotate(c.Facts, heads, x, cos, sin, positions)
		store(c.Output(names[i][1]), x)
	}
}

// rotate rotates x [T,heads,head_dim] in place by the tables' angles, cos and sin
// [P,rotary_dim/2]. What lies beyond rotary_dim in a head stays as it is.
func rotate[F float](f core.Facts, heads int, x, cos, sin []F, positions []int32) {
	half := f.RotaryDim / 2
	for t, p := range positions {
		c, s := cos[int(p)*half:][:half], sin[int(p)*half:][:half]
		for h := range heads {
			head := x[(t*heads+h)*f.HeadDim:][:f.HeadDim]
			for i := range half {
				a, b := pair(f, i)
				head[a], head[b] = head[a]*c[i]-head[b]*s[i], head[b]*c[i]+head[a]*s[i]
			}
		}
	}
}

// pair returns which two elements of a head rotate by angle i.
func pair(f core.Facts, i int) (a, b int) {
	if f.Pairing == core.Interleaved {
		return 2 * i, 2*i + 1
	}
	return i, i + f.RotaryDim/2
}
