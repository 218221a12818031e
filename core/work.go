package core

// Work is what an operation has to do at least, from its sizes alone, whoever does it
// and however: the measure of how near to a machine's limits a kernel comes.
type Work struct {
	// Bytes are those of each input, read once, and of each output, written once.
	Bytes int64 `json:"bytes"`
	// Products are the floating-point operations in matrix products, where a
	// multiplication and an addition are two; Elementwise are all others, where a
	// division, a root or an exponential is one.
	Products    float64 `json:"product_flops"`
	Elementwise float64 `json:"elementwise_flops"`
}

// Flops returns all floating-point operations.
func (w Work) Flops() float64 { return w.Products + w.Elementwise }

// Plus returns the work of both.
func (w Work) Plus(v Work) Work {
	return Work{w.Bytes + v.Bytes, w.Products + v.Products, w.Elementwise + v.Elementwise}
}

// Work returns what the call has to do. Its tensors must be set.
func (c *Call) Work() Work {
	w := NewWork(c.Op, c.Pass, c.Facts, c.Tokens())
	for _, tensors := range [][]Tensor{c.In, c.Out} {
		for _, t := range tensors {
			w.Bytes += int64(len(t.Data))
		}
	}
	return w
}

// NewWork returns the operations of a pass of op over so many tokens, by the formulas of
// docs/ops.md, without the bytes. Nothing that a kernel computes again counts twice. An
// op without a case here counts none, and is judged by its bytes alone.
func NewWork(op Op, pass Pass, f Facts, tokens int) Work {
	t := float64(tokens)
	switch op {
	case RMSNorm:
		return elementwise(pass, t*float64(f.Dim), 4, 9)
	case SwiGLU:
		return elementwise(pass, t*float64(f.Intermediate), 5, 10)
	case RoPE: // a pair takes four multiplications and two additions
		return elementwise(pass, t*float64(f.Heads+f.KVHeads)*float64(f.RotaryDim), 3, 3)
	case MoEExperts:
		return moeWork(pass, t*float64(f.TopK), float64(f.Dim), float64(f.Intermediate))
	}
	return Work{}
}

// elementwise is so many operations for each element, forward and backward.
func elementwise(pass Pass, elements, forward, backward float64) Work {
	if pass == Backward {
		return Work{Elementwise: elements * backward}
	}
	return Work{Elementwise: elements * forward}
}

// moeWork: every assignment of a token to an expert is three products with a matrix of
// dim by intermediate, and backward two for each of these; between them is a swiglu, and
// rows are weighted and summed.
func moeWork(pass Pass, assignments, dim, intermediate float64) Work {
	if pass == Backward {
		return Work{Products: 12 * assignments * dim * intermediate, Elementwise: assignments * (12*intermediate + 2*dim)}
	}
	return Work{Products: 6 * assignments * dim * intermediate, Elementwise: assignments * (5*intermediate + 2*dim)}
}
