package linearcrossentropy

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/internal/storage"
)

const (
	// chunkRows is the fewest tokens worked on at a time, unless there are fewer. Every
	// chunk packs the whole weight twice, and reads and writes the whole of its gradient:
	// fewer rows make the products slower, more rows make the logits larger. Of 512 tokens
	// with D = 1024 and V = 151936, the backward pass runs at 324 GFLOP/s with chunks of
	// 56 (34 MB of logits), at 397 with 112 (68 MB), at 445 with 256 (156 MB) and at 465
	// with all at once (311 MB), on two cores.
	chunkRows = 112
	// chunkBytes is what the logits of a chunk may take when more rows fit than these.
	chunkBytes = 16 << 20

	rowGrain = 1 << 14 // elements below which another goroutine does not pay
)

// rowsOf returns how many tokens make a chunk. It depends on the vocabulary alone, being
// part of the order in which the weight's gradient is summed.
func rowsOf(vocab int) int { return max(chunkRows, chunkBytes/4/vocab) }

// chunks calls f with the targets of each chunk and the logits that they have.
func (k *Kernel) chunks(ctx context.Context, c *core.Call, f func(targets []int, x, logits []float32)) error {
	D, V := c.Facts.Dim, c.Facts.Vocab
	for lo := 0; lo < len(k.targets); lo += rowsOf(V) {
		if err := ctx.Err(); err != nil {
			return err
		}
		targets := k.targets[lo:min(lo+rowsOf(V), len(k.targets))]
		n := len(targets)
		x, logits := grow(&k.x, n*D), grow(&k.logits, n*V)
		for r, t := range targets {
			storage.Load(x[r*D:(r+1)*D], c.Input("x"), t*D)
		}
		simd.Multiply(simd.Product{M: n, N: V, K: D, A: simd.Matrix{Data: x, Stride: D},
			B: matrix(c.Input("weight")), TransB: true, C: logits, StrideC: V})
		f(targets, x, logits)
	}
	return nil
}

// matrix makes the weight an operand, widened while it is packed.
func matrix(w core.Tensor) simd.Matrix {
	m := simd.Matrix{Stride: w.Shape[1]}
	switch w.DType {
	case core.BFloat16:
		m.BFloat16 = w.Uint16s()
	case core.Float16:
		m.Float16 = w.Uint16s()
	default:
		m.Data = w.Float32s()
	}
	return m
}

// grow returns n elements of scratch memory, with what they held before.
func grow(buf *[]float32, n int) []float32 {
	if cap(*buf) < n {
		*buf = make([]float32, n)
	}
	return (*buf)[:n]
}
