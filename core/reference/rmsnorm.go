package reference

import (
	"math"

	"github.com/seed98097648/tune/core"
)

func runRMSNorm[F float](c *core.Call) {
	x, weight := values[F](c.Input("x")), values[F](c.Input("weight"))
	if c.Pass == core.Forward {
		y, rstd := rmsNorm(c.Facts, x, weight)
		store(c.Output("y"), y)
		store(c.Output("rstd"), rstd)
		return
	}
	dx, dweight := rmsNormGradient(c.Facts, values[F](c.Input("dy")), x, weight)
	store(c.Output("dx"), dx)
	if !c.Facts.Frozen {
		store(c.Output("dweight"), dweight)
	}
}

// rmsNorm returns y [T,D] and rstd [T].
func rmsNorm[F float](f core.Facts, x, weight []F) (y, rstd []F) {
	D := f.Dim
	y = make([]F, len(x))
	for from := 0; from < len(x); from += D {
		row := x[from : from+D]
		r := reciprocalRMS(f, row)
		rstd = append(rstd, r)
		for i, v := range row {
			y[from+i] = normalized(f, v*r) * (F(f.Offset) + weight[i])
		}
	}
	return y, rstd
}

// rmsNormGradient returns dx [T,D] and dweight [D]. It computes rstd again, because
// the saved one has only the precision of float32.
func rmsNormGradient[F float](f core.Facts, dy, x, weight []F) (dx, dweight []F) {
	D := f.Dim
	dx, dweight = make([]F, len(x)), make([]F, D)
	for from := 0; from < len(x); from += D {
		row := x[from : from+D]
		r := reciprocalRMS(f, row)
		var mean F // of g*n
		for i, v := range row {
			dyi := dy[from+i]
			dweight[i] += dyi * normalized(f, v*r)
			mean += dyi * (F(f.Offset) + weight[i]) * (v * r) / F(D)
		}
		for i, v := range row {
			g := dy[from+i] * (F(f.Offset) + weight[i])
			dx[from+i] = r * (g - v*r*mean)
		}
	}
	return dx, dweight
}

func reciprocalRMS[F float](f core.Facts, row []F) F {
	return F(1 / math.Sqrt(float64(dot(row, row)/F(len(row))+F(f.Eps))))
}

// normalized returns n as the weight multiplies it.
func normalized[F float](f core.Facts, n F) F {
	if f.Cast == core.CastBeforeWeight {
		return rounded(f.DType, n)
	}
	return n
}
