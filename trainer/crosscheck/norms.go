package crosscheck

import (
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

func rmsNorm(c *core.Call) []worst {
	x := c.Input("x").Float32s()
	if c.Pass == core.Forward {
		return normForward(c, x)
	}
	return normBackward(c, x, nil)
}

// addRMSNorm takes the sum that the kernel gives, once it is found right, for what the
// norm is of.
func addRMSNorm(c *core.Call) []worst {
	if c.Pass == core.Backward {
		return normBackward(c, c.Input("h").Float32s(), c.Input("dh").Float32s())
	}
	return slices.Concat(sums(c), normForward(c, c.Output("h").Float32s()))
}

// sums compares h = x + residual.
func sums(c *core.Call) []worst {
	x, residual, h := c.Input("x").Float32s(), c.Input("residual").Float32s(), c.Output("h").Float32s()
	sum := named("h")
	each(sum, len(h), 1, func(lo, hi int, found []worst) {
		for i := lo; i < hi; i++ {
			want := float64(x[i]) + float64(residual[i])
			found[0].see(i, float64(h[i]), want, within(unit, math.Abs(want)))
		}
	})
	return sum
}

// root returns rstd of a row and the relative error that it may have: half of that of the
// mean, which the kernel may lose squares below tiny from. A row whose squares overflow
// has no limit.
func root(f core.Facts, row []float32) (rstd, relative float64) {
	sum := simd.SumSquares(row)
	mean := sum/float64(f.Dim) + f.Eps
	relative = rounding(f.Dim) + few + tiny/mean
	if sum > math.MaxFloat32 {
		relative = math.Inf(1)
	}
	return 1 / math.Sqrt(mean), relative
}

// normForward compares y = x*rstd*(offset+weight) and rstd.
func normForward(c *core.Call, x []float32) []worst {
	f, d := c.Facts, c.Facts.Dim
	weight, y, rstd := single(c.Input("weight")), c.Output("y").Float32s(), c.Output("rstd").Float32s()
	found := named("y", "rstd")
	each(found, len(rstd), d, func(lo, hi int, found []worst) {
		for t := lo; t < hi; t++ {
			r, relative := root(f, x[t*d:][:d])
			found[1].see(t, float64(rstd[t]), r, within(relative, r))
			for i := t * d; i < (t+1)*d; i++ {
				want := float64(x[i]) * r * (float64(f.Offset) + float64(weight[i-t*d]))
				found[0].see(i, float64(y[i]), want, within(relative, math.Abs(want)))
			}
		}
	})
	return found
}

// normBackward compares dx = dh + rstd*(g - n*mean(g*n)) and dweight = sum of dy*n, where
// n = x*rstd and g = dy*(offset+weight). dh is nil for none.
func normBackward(c *core.Call, x, dh []float32) []worst {
	f, d := c.Facts, c.Facts.Dim
	weight, dy, dx := single(c.Input("weight")), c.Input("dy").Float32s(), c.Output("dx").Float32s()
	scale := make([]float64, d)
	for i, w := range weight {
		scale[i] = float64(f.Offset) + float64(w)
	}
	roots, errs := make([]float64, len(x)/d), make([]float64, len(x)/d)
	found := named("dx")
	each(found, len(roots), d, func(lo, hi int, found []worst) {
		for t := lo; t < hi; t++ {
			row, dyt := x[t*d:][:d], dy[t*d:][:d]
			r, relative := root(f, row)
			roots[t], errs[t] = r, relative
			var mean, size float64
			for i, v := range row {
				term := float64(dyt[i]) * scale[i] * float64(v) * r
				mean += term
				size += math.Abs(term)
			}
			mean, size = mean/float64(d), size/float64(d)
			for i, v := range row {
				g, n := float64(dyt[i])*scale[i], float64(v)*r
				want, terms := r*(g-n*mean), r*(math.Abs(g)+math.Abs(n)*size)
				if dh != nil {
					want, terms = want+float64(dh[t*d+i]), terms+math.Abs(float64(dh[t*d+i]))
				}
				// rstd is in the second term three times.
				found[0].see(t*d+i, float64(dx[t*d+i]), want, within(4*relative, terms))
			}
		}
	})
	if f.Frozen {
		return found
	}
	dweight, relative := named("dweight"), slices.Max(append(errs, 0))+rounding(len(roots))
	got := c.Output("dweight").Float32s()
	each(dweight, d, len(roots), func(lo, hi int, found []worst) {
		sum, size := make([]float64, hi-lo), make([]float64, hi-lo)
		for t, r := range roots {
			for i := range sum {
				term := float64(dy[t*d+lo+i]) * float64(x[t*d+lo+i]) * r
				sum[i] += term
				size[i] += math.Abs(term)
			}
		}
		for i := range sum {
			found[0].see(lo+i, float64(got[lo+i]), sum[i], within(relative, size[i]))
		}
	})
	return append(found, dweight...)
}
