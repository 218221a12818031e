package attentionpre

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/ops/rope"
)

// terms: what q, k and v are sums of passes through the norm of heads, and the rotation. Sums of whole numbers are
// exact.
func terms(in *opdef.Inputs, _ core.Pass, output string) []float64 {
	f := in.Facts
	for _, p := range parts(f) {
		if p.name != output {
			continue
		}
		y, size := projected(in, p)
		if p.turns && f.QKNorm {
			normTerms(f, y, size, in.Wide(p.name+"_norm_weight"), in.Wide(p.name+"_norm_bias"))
		}
		if p.turns {
			size = rope.Terms(in, size)
		}
		return size
	}
	return nil // h is one addition
}

// projected returns a layer's output, and the size of its terms.
func projected(in *opdef.Inputs, p part) (y, size []float64) {
	f := in.Facts
	h := in.Wide("x")
	for i, r := range in.Wide("residual") {
		h[i] = opdef.Rounded(f.DType, h[i]+r)
	}
	weight, rows, bias := in.Wide(p.name+"_weight"), p.heads*f.HeadDim, in.Wide(p.name+"_bias")
	of := normToQuantise(f, h, in.Wide("norm_weight"), in.Wide("norm_bias"))
	if f.Scaling == "" {
		of = norm(f, h, in.Wide("norm_weight"), in.Wide("norm_bias"))
		opdef.ScaleRows(weight, in.Wide(p.name+"_weight_scale"))
	}
	for t := range len(of) / f.Dim {
		n := of[t*f.Dim:][:f.Dim]
		row := make([]float64, rows)
		if f.Scaling == "" {
			copy(row, opdef.Product(weight, n))
		} else {
			int8Row(in, p, n, row)
		}
		for i, v := range row {
			term := math.Abs(v)
			if f.Scaling == "" {
				term = opdef.TermsOf(weight[i*f.Dim:][:f.Dim], n)
			}
			if bias != nil {
				term, v = math.Hypot(term, bias[i]), v+bias[i]
			}
			y, size = append(y, v), append(size, term)
		}
	}
	return y, size
}

// int8Row is a token's output of a layer with scaling, but for its bias.
func int8Row(in *opdef.Inputs, p part, n, y []float64) {
	one := func(name string) core.Tensor { return in.Named[name][0] }
	f, weight := in.Facts, one(p.name+"_weight").Int8s()
	if f.Scaling == core.StaticScaling {
		q := opdef.QuantiseStatic(f.DType, n, float64(one("input_scale").Float32s()[0]), one("input_offset").Int32s()[0])
		opdef.Dequantised(y, opdef.Int8Sums(weight, q, one(p.name+"_quant_bias").Int32s()), 1,
			one(p.name+"_deq_scale").Float32s(), nil)
		return
	}
	q, s := opdef.QuantiseRow(f.DType, n)
	opdef.Dequantised(y, opdef.Int8Sums(weight, q, nil), s, one(p.name+"_weight_scale").Float32s(), nil)
}

// normTerms makes of the sizes of the terms of y those of the terms of its norm over heads: an error of y moves the
// element itself, and by rstd all others of its head.
func normTerms(f core.Facts, y, size, weight, bias []float64) {
	d := f.HeadDim
	for from := 0; from < len(y); from += d {
		sum := 0.0
		for _, v := range y[from:][:d] {
			sum += v * v
		}
		rstd := 1 / math.Sqrt(sum/float64(d)+f.Eps)
		moved := 0.0 // of rstd, by rstd
		for i, v := range y[from:][:d] {
			moved = math.Hypot(moved, v*rstd*size[from+i]*rstd/float64(d))
		}
		for i := range d {
			gain := math.Abs(float64(f.Offset) + weight[i])
			n := y[from+i] * rstd
			size[from+i] = gain * math.Hypot(rstd*size[from+i], n*moved)
			if bias != nil {
				size[from+i] = math.Hypot(size[from+i], bias[i])
			}
		}
	}
}
