package forecast

import (
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/trainer/models"
)

// onTiles are the ops whose kernels have products on tiles, those of a process together.
var onTiles = [][]core.Op{{core.Linear, core.QKV, core.GateUpSwiGLU}, {core.LinearCrossEntropy}, {core.MoEExperts}}

// tilesScratch is what processes of kernels pack operands into for products on tiles: of as many rows as
// products that are computed together have, at most 2048, and of strips of 256 columns, one for each thread,
// 512 terms in three parts of two bytes each: 7.9 MiB with two threads.
func tilesScratch(m *models.Model, r Run) (bytes int64) {
	const element, terms, rows, strip = 6, 512, 2048, 256
	threads := r.Threads
	if threads == 0 {
		threads = vector.Threads()
	}
	for _, ops := range onTiles {
		if slices.ContainsFunc(m.Sites(), func(s core.Site) bool {
			return s.Hook.Kernel() != nil && slices.Contains(ops, s.Op) && tilesPay(s, r.Batch*r.Seq)
		}) {
			bytes += element * terms * int64(rows+threads*strip)
		}
	}
	return bytes
}

// tilesPay reports whether the products of a site are on tiles: those with the largest weight, of all its rows.
func tilesPay(s core.Site, tokens int) bool {
	f := s.Facts
	p := vector.TileProduct{Product: vector.Product{M: tokens, K: f.Dim}}
	switch s.Op {
	case core.Linear:
		p.N = f.Out
	case core.QKV:
		p.N = f.Heads * f.HeadDim
	case core.LinearCrossEntropy:
		p.N = f.Vocab
	case core.GateUpSwiGLU:
		p.N = f.Intermediate
	case core.MoEExperts:
		p.M, p.N = tokens*f.TopK/f.Experts, f.Experts*f.Intermediate // all of them together are what counts
	}
	return vector.HasTiles() && p.Pays()
}
