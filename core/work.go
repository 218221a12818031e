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

// Work returns what the call has to do. Its tensors must be set.
func (c *Call) Work() Work {
	w := NewWork(c.Op, c.Pass, c.Facts, c.Tokens(), c.Tokens())
	if c.Op == Attention {
		w = attentionWork(c.Pass, c.Facts, seen(c.Input("keys").Int32s()))
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
// row. An op without a case here counts nothing, and is judged by its bytes alone.
func NewWork(op Op, pass Pass, f Facts, tokens, positions int) Work {
	t := float64(tokens)
	switch op {
	case RMSNorm:
		if f.Frozen { // two operations of the nine are for the weight's gradient
			return elementwise(pass, t*float64(f.Dim), 4, 7)
		}
		return elementwise(pass, t*float64(f.Dim), 4, 9)
	case AddRMSNorm:
		if f.Frozen {
			return elementwise(pass, t*float64(f.Dim), 5, 8)
		}
		return elementwise(pass, t*float64(f.Dim), 5, 10)
	case SwiGLU:
		return elementwise(pass, t*float64(f.Intermediate), 5, 10)
	case RoPE: // a pair takes four multiplications and two additions
		return elementwise(pass, t*float64(f.Heads+f.KVHeads)*float64(f.RotaryDim), 3, 3)
	case MoEGate: // of a logit: its score, the sum and a comparison; backward the score and the gradient
		return elementwise(pass, t*float64(f.Experts), 4, 6)
	case MoEExperts:
		return moeWork(pass, t*float64(f.TopK), float64(f.Dim), float64(f.Intermediate), f.Frozen)
	case Attention:
		return attentionWork(pass, f, t*float64(min(tokens, positions)+1)/2)
	case LinearCrossEntropy:
		return lossWork(pass, t*float64(f.Vocab), float64(f.Dim), f.Frozen)
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
// dim by intermediate, and backward two for each of these, one if the matrices are frozen;
// between them is a swiglu, and rows are weighted and summed.
func moeWork(pass Pass, assignments, dim, intermediate float64, frozen bool) Work {
	if pass == Backward {
		w := Work{Products: 12 * assignments * dim * intermediate, Elementwise: assignments * (12*intermediate + 2*dim)}
		if frozen {
			w.Products /= 2
		}
		return w
	}
	return Work{Products: 6 * assignments * dim * intermediate, Elementwise: assignments * (5*intermediate + 2*dim)}
}

// seen returns how many pairs of a query and a key the ranges of attention have.
func seen(keys []int32) float64 {
	n := 0.0
	for i := 0; i+1 < len(keys); i += 2 {
		n += float64(max(keys[i+1]-keys[i], 0))
	}
	return n
}

// attentionWork: for every head and every pair of a query and a key that it sees, forward
// has a product with q and one with v; backward has the first again, because the scores
// are not saved, and two for each. Between them is a softmax.
func attentionWork(pass Pass, f Facts, pairs float64) Work {
	pairs *= float64(f.Heads)
	if pass == Backward {
		return Work{Products: 10 * pairs * float64(f.HeadDim), Elementwise: 6 * pairs}
	}
	return Work{Products: 4 * pairs * float64(f.HeadDim), Elementwise: 4 * pairs}
}

// lossWork: every logit is a product with a row of the weight, in both passes, because
// logits are not saved; backward has one more for each gradient.
func lossWork(pass Pass, logits, dim float64, frozen bool) Work {
	if pass == Backward {
		products := 6.0
		if frozen {
			products = 4
		}
		return Work{Products: products * logits * dim, Elementwise: 4 * logits}
	}
	return Work{Products: 2 * logits * dim, Elementwise: 3 * logits}
}
