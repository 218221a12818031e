package pagedattention

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// settle makes sequences of some new tokens each, and of any length; they may have blocks in common, in any order.
func settle(in *opdef.Inputs, rng *rand.Rand) {
	most := in.Positions * in.Facts.BlockSize
	fill(in.Named, rng, func(_, left int) (n, all int) {
		if n = 1 + rng.IntN(min(left, most, 9)); n == left { // the last fills its table, if that has no more places
			return n, most
		}
		return n, n + rng.IntN(most-n+1)
	})
}

// sequences makes them of so many new tokens, and so many in all; f is asked until there are no tokens left.
func sequences(f func(b, T int) (n, all int)) opdef.Edit {
	return func(in map[string][]core.Tensor) {
		T := in["q"][0].Shape[0]
		fill(in, rand.New(rand.NewPCG(3, uint64(T))), func(b, _ int) (int, int) { return f(b, T) })
	}
}

// fill fills tables of blocks in no order. What a sequence does not need points nowhere.
func fill(in map[string][]core.Tensor, rng *rand.Rand, f func(b, left int) (n, all int)) {
	cache, tables := in["k_cache"][0].Shape, in["block_tables"][0]
	queries, lens, v := in["query_lens"][0].Int32s(), in["seq_lens"][0].Int32s(), tables.Int32s()
	left := in["q"][0].Shape[0]
	for b := range queries {
		row := v[b*tables.Shape[1]:][:tables.Shape[1]]
		for i := range row {
			row[i] = -1
		}
		queries[b], lens[b] = 0, 0
		if left == 0 {
			continue
		}
		n, all := f(b, left)
		n = min(n, left)
		left -= n
		all = min(all, min(len(row), cache[0])*cache[1])
		for i, block := range rng.Perm(cache[0])[:(all+cache[1]-1)/cache[1]] {
			row[i] = int32(block)
		}
		queries[b], lens[b] = int32(n), int32(all)
	}
}

// shared gives all sequences the first block of the first.
func shared(in map[string][]core.Tensor) {
	tables := in["block_tables"][0]
	v, places := tables.Int32s(), tables.Shape[1]
	for b := range tables.Shape[0] {
		if v[b*places] >= 0 {
			v[b*places] = v[0]
		}
	}
}

// reserved gives all sequences blocks that they do not need yet.
func reserved(in map[string][]core.Tensor) {
	blocks := in["k_cache"][0].Shape[0]
	for i, v := range in["block_tables"][0].Int32s() {
		if v < 0 {
			in["block_tables"][0].Int32s()[i] = int32(i % blocks)
		}
	}
}

// garbage puts NaN into what no sequence has.
func garbage(in map[string][]core.Tensor) {
	k, tables, size := in["k_cache"][0], in["block_tables"][0], in["k_cache"][0].Shape[1]
	used := make([]bool, k.Shape[0]*size)
	for b, n := range in["seq_lens"][0].Int32s() {
		for j := range int(n) {
			used[int(tables.Int32s()[b*tables.Shape[1]+j/size])*size+j%size] = true
		}
	}
	for _, name := range []string{"k_cache", "v_cache"} {
		x := in[name][0]
		width := x.Elems() / len(used)
		nothing := make([]float32, width)
		for i := range nothing {
			nothing[i] = float32(math.NaN())
		}
		for slot, is := range used {
			if !is {
				x.Store(nothing, slot*width)
			}
		}
	}
}

func axes() []opdef.Axis {
	one := func(u *opdef.Use) { u.Facts.Heads, u.Facts.KVHeads = 1, 1 }
	return []opdef.Axis{
		{Name: "tokens", Rests: opdef.EveryRest, Step: 63, Large: []int{514, 1029}, Set: func(u *opdef.Use, n int) {
			u.Tokens = n
		}},
		{Name: "tokens of a prompt", Rests: opdef.SomeRests, Large: []int{130, 66, 300}, Set: func(u *opdef.Use, n int) {
			one(u)
			u.Tokens, u.Positions = n, 2*n/u.Facts.BlockSize+3
			u.Edit = sequences(func(_, T int) (int, int) { return T, 2*T + 5 })
		}},
		{Name: "tokens of a sequence", Rests: opdef.EveryRest, Step: 31, Large: []int{1030, 514, 2050, 4102},
			Set: func(u *opdef.Use, n int) {
				u.Tokens, u.Positions = 2, n/u.Facts.BlockSize+2
				u.Edit = opdef.Both(sequences(func(_, _ int) (int, int) { return 1, n }), garbage)
			}},
		{Name: "head_dim", Rests: opdef.EveryRest, Step: 31, Large: []int{258, 192, 256, 514},
			Set: func(u *opdef.Use, n int) { u.Facts.HeadDim = n }},
		{Name: "group", Rests: opdef.SomeRests, Large: []int{66, 48, 64}, Set: func(u *opdef.Use, n int) {
			u.Facts.Heads, u.Facts.KVHeads = n, 1
		}},
		{Name: "kv_heads", Rests: opdef.SomeRests, Large: []int{66, 64}, Set: func(u *opdef.Use, n int) {
			u.Facts.Heads, u.Facts.KVHeads = (2+n%2)*n, n
		}},
		{Name: "block_size", Rests: opdef.EveryRest, Large: []int{258, 256, 1024}, Set: func(u *opdef.Use, n int) {
			one(u)
			u.Facts.BlockSize, u.Positions = n, 4
			u.Edit = garbage
		}},
		{Name: "window", Rests: opdef.EveryRest, Large: []int{258, 514}, Set: func(u *opdef.Use, n int) {
			one(u)
			u.Facts.Window, u.Positions = n, n/u.Facts.BlockSize+9
			u.Edit = sequences(func(b, _ int) (int, int) { return 2, n + 7*b/2 + b%2 }) // also from a block's first on
		}},
		{Name: "blocks", Large: []int{opdef.Beyond16}, Set: func(u *opdef.Use, n int) {
			one(u)
			u.Positions = n
			u.Edit = opdef.Both(sequences(func(_, _ int) (int, int) { return 1, 30 }), last)
		}},
	}
}

// hidden gives the first two thirds of the tokens of each sequence scores of -Inf: they weigh nothing, whole blocks of
// them before any other.
func hidden(in map[string][]core.Tensor) {
	opdef.Each(func(_, _ int, v float64) float64 { return 1 + math.Abs(v) }, "q")(in)
	k, tables, size := in["k_cache"][0], in["block_tables"][0], in["k_cache"][0].Shape[1]
	row := slices.Repeat([]float32{float32(math.Inf(-1))}, k.Elems()/(k.Shape[0]*size))
	for b, n := range in["seq_lens"][0].Int32s() {
		for j := range int(n) * 2 / 3 {
			k.Store(row, (int(tables.Int32s()[b*tables.Shape[1]+j/size])*size+j%size)*len(row))
		}
	}
}

// last gives all sequences the last blocks of the cache.
func last(in map[string][]core.Tensor) {
	blocks, tables := in["k_cache"][0].Shape[0], in["block_tables"][0]
	for i, v := range tables.Int32s() {
		if v >= 0 {
			tables.Int32s()[i] = int32(blocks - 1 - i%tables.Shape[1])
		}
	}
}

// first puts a number into what a cache has of the first token of a sequence, if there is one.
func first(in map[string][]core.Tensor, sequence int, name string, to float64) {
	tables, cache := in["block_tables"][0], in[name][0]
	if in["seq_lens"][0].Shape[0] > sequence && in["seq_lens"][0].Int32s()[sequence] > 0 {
		block := int(tables.Int32s()[sequence*tables.Shape[1]])
		cache.Store([]float32{float32(to)}, block*cache.Elems()/cache.Shape[0])
	}
}

// inOrder gives all sequences the first blocks of the cache, so that slots are tokens.
func inOrder(in map[string][]core.Tensor) {
	tables := in["block_tables"][0]
	for i, v := range tables.Int32s() {
		if v >= 0 {
			tables.Int32s()[i] = int32(i % tables.Shape[1])
		}
	}
}

// extremes adds to the scores by way of the first element of q and k.
func extremes(f core.Facts, add opdef.Adder) {
	d := f.DType
	scoresIn := func(size int, of func(slot int) float64) opdef.Edit {
		return opdef.Both(
			opdef.Each(func(_, i int, v float64) float64 {
				if i%f.HeadDim == 0 {
					return 32
				}
				return v
			}, "q"),
			opdef.Each(func(block, i int, v float64) float64 {
				if width := f.KVHeads * f.HeadDim; i%f.HeadDim == 0 {
					return of(block*size+i/width) / 16
				}
				return v
			}, "k_cache"))
	}
	scores := func(of func(slot int) float64) opdef.Edit { return scoresIn(f.BlockSize, of) }
	add("scores far above zero", 29, scores(func(int) float64 { return 1000 }))
	add("scores far below zero", 29, scores(func(int) float64 { return -1000 }))
	add("scores of all sizes", 29, scores(func(s int) float64 { return float64(s*7919%2000) - 1000 }))
	add("equal scores", 29, opdef.Scaled("q", 0))
	add("scores of -Inf first", 29, opdef.Both(sequences(func(_, T int) (int, int) { return T, T + 15 }), hidden))
	// Several blocks of a kernel, for a piece of a prompt and for single tokens.
	const size, far = 128, 1400
	large := func(f *core.Facts) { f.BlockSize = size }
	long := opdef.Both(sequences(func(b, T int) (int, int) {
		if b == 0 {
			return T - 3, far
		}
		return 1, far - 100*b
	}), inOrder)
	rise := func(slot int) float64 { return 2000*float64(slot)/far - 1000 }
	add("scores that rise", 9, opdef.Both(long, scoresIn(size, rise)), large)
	add("scores that fall", 9, opdef.Both(long, scoresIn(size, func(slot int) float64 { return -rise(slot) })), large)
	add("scores of -Inf first", 9, opdef.Both(long, hidden), large)
	add("smallest numbers", 29, opdef.Each(opdef.Tiny(d), "v_cache"))
	add("blocks of all scales", 12, opdef.Both(sequences(func(_, _ int) (int, int) { return 1, 1 }),
		opdef.Ladders(d, 2, "v_cache")))
}
