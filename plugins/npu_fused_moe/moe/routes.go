package moe

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// blockRows bounds the rows computed at a time, and so the scratch memory. It is part of
// the order in which weight gradients are summed.
const blockRows = 4096

// routes is the permutation that puts assignments in the order of their experts.
// Assignment a is choice a%K of token a/K.
type routes struct {
	start []int // [E+1]: rows [start[e], start[e+1]) belong to expert e
	order []int // [T*K]: the assignment in each row
	row   []int // [T*K]: the row of each assignment
}

// sort counts the assignments of each expert and places them one after the other, which
// keeps those of one expert in order.
func (r *routes) sort(ids []int32, experts int) {
	r.start = append(r.start[:0], make([]int, experts+1)...)
	for _, e := range ids {
		r.start[e+1]++
	}
	for e := range experts {
		r.start[e+1] += r.start[e]
	}
	r.order = append(r.order[:0], make([]int, len(ids))...)
	r.row = append(r.row[:0], make([]int, len(ids))...)
	next := append([]int(nil), r.start...)
	for a, e := range ids {
		r.order[next[e]], r.row[a] = a, next[e]
		next[e]++
	}
}

// block is rows [lo, hi), a few experts' or a part of one's.
type block struct{ lo, hi int }

func (r *routes) blocks() []block {
	var all []block
	for lo := 0; lo < len(r.order); lo += blockRows {
		all = append(all, block{lo, min(lo+blockRows, len(r.order))})
	}
	return all
}

// piece is the rows [lo, hi) of a block that belong to one expert. They are the first
// of the expert's unless an earlier block had some.
type piece struct {
	expert, lo, hi int
	first          bool
}

func (r *routes) pieces(b block) []piece {
	var all []piece
	for e := range len(r.start) - 1 {
		if lo, hi := max(b.lo, r.start[e]), min(b.hi, r.start[e+1]); lo < hi {
			all = append(all, piece{e, lo, hi, lo == r.start[e]})
		}
	}
	return all
}

// gather copies the tokens' rows of x that rows [b.lo, b.hi) stand for to dst, widened.
// The products read each of them several times.
func (r *routes) gather(dst []float32, x core.Tensor, b block, topK, dim int) {
	vector.Parallel(b.hi-b.lo, rowGrain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			vector.Load(dst[i*dim:][:dim], x, r.order[b.lo+i]/topK*dim)
		}
	})
}

// addRows adds to each token's row of sum its assignments' rows of out, those in block
// b, times weights if given. The first block begins with zero. A token's rows are added in the order of its choices.
func (r *routes) addRows(sum, out []float32, b block, topK, dim int, weights []float32) {
	vector.Parallel(len(r.order)/topK, 16, func(lo, hi int) {
		for a := lo * topK; a < hi*topK; a++ {
			if b.lo == 0 && a%topK == 0 {
				clear(sum[a/topK*dim:][:dim])
			}
			row := r.row[a]
			if row < b.lo || row >= b.hi {
				continue
			}
			p := float32(1)
			if weights != nil {
				p = weights[a]
			}
			vector.Axpy(p, out[(row-b.lo)*dim:][:dim], sum[a/topK*dim:][:dim])
		}
	})
}

// expert holds the matrices of one expert: in, whose product with x is g and u side by
// side, is one of [2I,D] in the packed layout, or gate and up [I,D] on their own; down is
// [D,I].
type expert struct {
	in   []core.Tensor
	down core.Tensor
}

// experts finds them among named tensors, the gradients with prefix d.
func experts(f core.Facts, named func(string) []core.Tensor, prefix string) []expert {
	all := make([]expert, f.Experts)
	I, D := f.Intermediate, f.Dim
	down := named(prefix + "down")
	if f.Layout == core.PerExpert {
		gate, up := named(prefix+"gate"), named(prefix+"up")
		for e := range all {
			all[e] = expert{[]core.Tensor{gate[e], up[e]}, down[e]}
		}
		return all
	}
	both := named(prefix + "gate_up")[0]
	for e := range all {
		all[e] = expert{[]core.Tensor{both.Slice(2*e*I*D, 2*(e+1)*I*D, 2*I, D)}, down[0].Slice(e*I*D, (e+1)*I*D, D, I)}
	}
	return all
}
