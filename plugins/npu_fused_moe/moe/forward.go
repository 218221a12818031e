package moe

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Forward computes y and saves g and u, as rounded to storage, which is also how they go
// into h, so that Backward sees the same numbers.
func (k *Kernel) Forward(ctx context.Context, c *core.Call) error {
	k.routes.sort(c.Input("expert_ids").Int32s(), c.Facts.Experts)
	D := c.Facts.Dim
	weights := experts(c.Facts, c.Inputs, "")
	probabilities := c.Input("routing_weights").Float32s()
	sum := vector.Wide(&k.sum, c.Output("y"))
	for _, b := range k.routes.blocks() {
		if err := ctx.Err(); err != nil {
			return err
		}
		out := k.forward(c, weights, b)
		k.routes.addRows(sum, out, b, c.Facts.TopK, D, probabilities)
	}
	vector.Narrow(c.Output("y"), sum)
	return nil
}

// forward returns down[e] h for each row of a block.
func (k *Kernel) forward(c *core.Call, weights []expert, b block) []float32 {
	D, I, n := c.Facts.Dim, c.Facts.Intermediate, b.hi-b.lo
	x, h := vector.Grow(&k.x, n*D), vector.Grow(&k.hidden, n*I)
	out := x // which nobody reads by then
	k.routes.gather(x, c.Input("x"), b, c.Facts.TopK, D)
	saved := c.Output("gate_up_out")
	gu := vector.Wide(&k.gateUp, saved.Slice(b.lo*2*I, b.hi*2*I, n, 2*I))
	few := c.Input("x").Shape[0]*c.Facts.TopK <= vector.FewRows // of all blocks, for bits must not depend on the last one's size
	var in, back []vector.Product
	for _, p := range k.routes.pieces(b) {
		w, rows, at := weights[p.expert], p.hi-p.lo, p.lo-b.lo
		for i, part := range w.in {
			width := part.Shape[0]
			in = append(in, vector.Product{M: rows, N: width, K: D, A: vector.Matrix{Data: x[at*D:], Stride: D},
				B: vector.MatrixOf(part), TransB: true, Dots: few, C: gu[at*2*I+i*width:], StrideC: 2 * I})
		}
		back = append(back, vector.Product{M: rows, N: D, K: I, A: vector.Matrix{Data: h[at*I:], Stride: I},
			B: vector.MatrixOf(w.down), TransB: true, Dots: few, C: out[at*D:], StrideC: D})
	}
	k.Multiply.Run(in...)
	vector.Parallel(n, rowGrain, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := gu[r*2*I:][:2*I]
			if saved.DType != core.Float32 {
				vector.Store(saved, row, (b.lo+r)*2*I)
				vector.Load(row, saved, (b.lo+r)*2*I)
			}
			vector.Stream(false).SwiGLU(h[r*I:][:I], row[:I], row[I:])
		}
	})
	k.Multiply.Run(back...)
	return out
}

// rowGrain is the number of rows below which another goroutine does not pay.
const rowGrain = 4
