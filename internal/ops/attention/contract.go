//go:build ignore

package core

// Attention is y = softmax(q k^T / sqrt(head_dim)) v over a range of keys for each query.
const Attention Op = "attention"

var attention = contract{op: Attention,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.HeadDim > 0 && f.Heads > 0 && f.KVHeads > 0, "head_dim, heads and kv_heads must be positive")
		need(f.KVHeads > 0 && f.Heads%f.KVHeads == 0, "heads must be a multiple of kv_heads")
	},
	signature: attentionSignature,
	work: func(pass Pass, f Facts, t, positions float64) Work {
		return attentionWork(pass, f, t*(positions+1)/2)
	},
	workOf: func(c *Call) Work { return attentionWork(c.Pass, c.Facts, seen(c.Input("keys").Int32s())) },
}

// attentionSignature: keys holds the range [first, end) of keys that each query sees, as
// indices of tokens. A causal mask, packed documents, a batch of rows, padding and a
// sliding window are all ranges.
func attentionSignature(pass Pass, f Facts) Signature {
	q := Arg{Name: "q", DType: f.DType, Shape: Shape{DimT, f.Heads, f.HeadDim}}
	k := Arg{Name: "k", DType: f.DType, Shape: Shape{DimT, f.KVHeads, f.HeadDim}}
	keys := Arg{Name: "keys", DType: Int32, Shape: Shape{DimT, 2},
		Points: Points{To: DimT, Ranges: true, Of: "not a range of the %d tokens"}}
	in := []Arg{q, k, named(k, "v"), keys}
	y := named(q, "y")
	lse := Arg{Name: "lse", DType: Float32, Shape: Shape{DimT, f.Heads}, Saved: true}
	if pass == Forward {
		return Signature{In: in, Out: []Arg{y, lse}}
	}
	dy := named(y, "dy")
	y.Saved = true
	return Signature{In: append(append([]Arg{dy}, in...), y, lse),
		Out: []Arg{named(q, "dq"), named(k, "dk"), named(k, "dv")}}
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
