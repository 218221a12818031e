package core

// Work is what a pass of an operation has to do at least, to get from its inputs to its
// outputs, whoever does it and however: the measure of how near to a machine's limits a
// kernel comes.
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

// Minus returns the work without v's.
func (w Work) Minus(v Work) Work {
	return Work{w.Bytes - v.Bytes, w.Products - v.Products, w.Elementwise - v.Elementwise}
}

// Work returns what the call has to do. Its tensors must be set.
func (c *Call) Work() Work {
	w := NewWork(c.Op, c.Pass, c.Facts, c.Tokens(), c.Tokens())
	if of := c.Op.contract().workOf; of != nil {
		w = of(c)
	}
	for _, tensors := range [][]Tensor{c.In, c.Out} {
		for _, t := range tensors {
			w.Bytes += int64(len(t.Data))
		}
	}
	return w
}

// NewWork returns the operations of a pass of op over so many tokens, by the formulas of
// docs/ops.md, without the bytes. Attention depends on its input too, as Call.Work counts
// it: here, tokens lie in rows of so many positions, and see those before them in their
// row. What is no op counts nothing.
func NewWork(op Op, pass Pass, f Facts, tokens, positions int) Work {
	if work := op.contract().work; work != nil {
		return work(pass, f, float64(tokens), float64(min(tokens, positions)))
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
