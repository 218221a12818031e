package pre

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/qkv"
)

// parts are the three layers.
var parts = []string{"q", "k", "v"}

// Forward computes q, k, v and h.
func (k *Kernel) Forward(_ context.Context, c *core.Call) error {
	n := k.normed(c)
	var y [3][]float32
	for i, part := range parts {
		y[i] = vector.Wide(&k.wide[i], c.Output(part))
	}
	if c.Facts.Scaling == "" {
		products, weights := qkv.Products(c, vector.Matrix{Data: n, Stride: c.Facts.Dim}, y, true)
		k.kept.Run(nil, weights, products...)
	} else {
		multiplyInt8(c, n, y)
	}
	for i, part := range parts {
		if part != "v" {
			turn(c, part, y[i])
		}
		vector.Narrow(c.Output(part), y[i])
	}
	return nil
}

// normed writes h, and returns n as it would be stored.
func (k *Kernel) normed(c *core.Call) []float32 {
	f, D, norm := c.Facts, c.Facts.Dim, newNorm(c, "")
	x, n := c.Input("x"), vector.Grow(&k.n, c.Tokens()*c.Facts.Dim)
	var residual, h core.Tensor
	if f.Residual {
		residual, h = c.Input("residual"), c.Output("h")
	}
	vector.Parallel(c.Tokens(), grain/D, func(lo, hi int) {
		other, bits := make([]float32, D), make([]uint16, D)
		for t := lo; t < hi; t++ {
			row := n[t*D:][:D]
			vector.Load(row, x, t*D)
			if f.Residual {
				vector.Load(other, residual, t*D)
				vector.Add(row, row, other)
				vector.Store(h, row, t*D)
				vector.Round(row, f.DType, bits)
			}
			norm.row(row, bits)
		}
	})
	return n
}

// multiplyInt8 computes the layers of n that multiply int8 by int8.
func multiplyInt8(c *core.Call, n []float32, y [3][]float32) {
	f := c.Facts
	var layers []*vector.W8A8
	for i, part := range parts {
		weight := c.Input(part + "_weight")
		p := &vector.W8A8{M: c.Tokens(), N: weight.Rows(), K: f.Dim, X: n, Weight: weight.Int8s(), Y: y[i]}
		if f.Scaling == core.StaticScaling {
			p.Static, p.InputScale = true, c.Input("input_scale").Float32s()[0]
			p.InputOffset, p.QuantBias = c.Input("input_offset").Int32s()[0], c.Input(part+"_quant_bias").Int32s()
			p.Scale = c.Input(part + "_deq_scale").Float32s()
		} else if p.Scale = c.Input(part + "_weight_scale").Float32s(); f.Bias {
			p.Bias = c.Input(part + "_bias").Float32s()
		}
		layers = append(layers, p)
	}
	vector.MultiplyW8A8(layers...)
}
