package main

import (
	"slices"

	"github.com/seed98097648/tune/core"
)

// pagedBugs are those of kernels of a paged cache.
func pagedBugs() map[string]planted {
	stale := map[int][]int32{} // slots of the call before, by the number of tokens
	return map[string]planted{
		// It takes the last block of a sequence from one place too far in its table.
		"bug_table": {core.PagedAttention, func(run func() error, c *core.Call) error {
			x := c.Input("block_tables")
			tables, places := slices.Clone(x.Int32s()), x.Shape[1]
			for b, n := range c.Input("seq_lens").Int32s() {
				row, last := tables[b*places:][:places], (int(n)-1)/c.Facts.BlockSize
				if n > 0 && last+1 < places {
					row[last] = max(0, row[last+1])
				}
			}
			c.Set("block_tables", core.FromInt32(tables, x.Shape...))
			return run()
		}},
		// It sees one token more than its window has.
		"bug_window": {core.PagedAttention, func(run func() error, c *core.Call) error {
			if c.Facts.Window > 0 {
				defer func(f core.Facts) { c.Facts = f }(c.Facts)
				c.Facts.Window++
			}
			return run()
		}},
		// It stores the last token where the call before did.
		"bug_slot": {core.ReshapeAndCache, func(run func() error, c *core.Call) error {
			x := c.Input("slots")
			slots := slices.Clone(x.Int32s())
			if before := stale[len(slots)]; len(slots) > 0 {
				stale[len(slots)] = slices.Clone(slots)
				if before != nil && int(before[len(slots)-1]) < c.Output("k_cache").Shape[0]*c.Facts.BlockSize {
					slots[len(slots)-1] = before[len(slots)-1]
				}
			}
			c.Set("slots", core.FromInt32(slots, x.Shape...))
			return run()
		}},
		// It stores a token without a slot in the first one.
		"bug_no_slot": {core.ReshapeAndCache, func(run func() error, c *core.Call) error {
			x := c.Input("slots")
			slots := slices.Clone(x.Int32s())
			for i, s := range slots {
				slots[i] = max(s, 0)
			}
			c.Set("slots", core.FromInt32(slots, x.Shape...))
			return run()
		}},
	}
}
