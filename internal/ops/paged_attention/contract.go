//go:build ignore

package core

import "fmt"

// PagedAttention is y = softmax(scale * q k^T) v of the last tokens of some sequences over all of their tokens,
// whose keys and values lie in blocks.
const PagedAttention Op = "paged_attention"

var pagedAttention = contract{op: PagedAttention, forwardOnly: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		attention.valid(f, need)
		need(f.BlockSize > 0, "block_size must be positive")
		need(f.Window >= 0, "window must not be negative")
		need(f.Scale > 0 && f.Scale <= maxScale, "scale must be positive and finite")
	},
	signature: pagedAttentionSignature,
	check:     checkTables,
	work: func(_ Pass, f Facts, t, positions float64) Work {
		return attentionWork(Forward, f, t*(positions+1)/2)
	},
	workOf: func(c *Call) Work {
		pairs, lens := 0, c.Input("seq_lens").Int32s()
		for b, n := range c.Input("query_lens").Int32s() {
			for i := range int(n) {
				seen := max(int(lens[b])-int(n)+i+1, 0)
				if w := c.Facts.Window; w > 0 {
					seen = min(seen, w)
				}
				pairs += seen
			}
		}
		return attentionWork(Forward, c.Facts, float64(pairs))
	},
}

// maxScale is more than any model multiplies scores by.
const maxScale = 1 << 20

// pagedAttentionSignature: token j of sequence b lies in block block_tables[b, j/block_size], in the place
// j%block_size. The tokens of q are the last query_lens[b] of each sequence, one sequence after the other.
func pagedAttentionSignature(pass Pass, f Facts) Signature {
	if pass == Backward {
		return Signature{}
	}
	q := Arg{Name: "q", DType: f.DType, Shape: Shape{DimT, f.Heads, f.HeadDim}}
	cache := Arg{Name: "k_cache", DType: f.DType, Shape: Shape{DimP, f.BlockSize, f.KVHeads, f.HeadDim}}
	return Signature{In: []Arg{q, cache, named(cache, "v_cache"),
		{Name: "block_tables", DType: Int32, Shape: Shape{DimB, DimM},
			Points: Points{To: DimP, Some: true, Of: "the cache has %d blocks"}},
		{Name: "query_lens", DType: Int32, Shape: Shape{DimB}},
		{Name: "seq_lens", DType: Int32, Shape: Shape{DimB}},
	}, Out: []Arg{named(q, "y")}}
}

// checkTables verifies that no more queries are asked for than there are, and that each sequence has a block for
// each of its tokens.
func checkTables(c *Call) error {
	tables, queries, lens := c.Input("block_tables"), c.Input("query_lens").Int32s(), c.Input("seq_lens").Int32s()
	places, sum := tables.Shape[1], 0
	for b, n := range queries {
		if sum += int(n); n < 0 || sum > c.Tokens() {
			return fmt.Errorf("query_lens[%d] is %d, which makes %d of %d tokens", b, n, sum, c.Tokens())
		}
		blocks := (int(lens[b]) + c.Facts.BlockSize - 1) / c.Facts.BlockSize
		if lens[b] < 0 || blocks > places {
			return fmt.Errorf("seq_lens[%d] is %d; a table has %d places for blocks of %d", b, lens[b], places,
				c.Facts.BlockSize)
		}
		for i, block := range tables.Int32s()[b*places:][:blocks] {
			if block < 0 {
				return fmt.Errorf("block_tables[%d,%d] is %d, of a sequence of %d tokens", b, i, block, lens[b])
			}
		}
	}
	return nil
}
