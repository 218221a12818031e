package main

import "fmt"

// dotRows is how many rows of each side a block of products of int8 has at most: 16 of the registers are sums.
const dotRows = 4

// int8s emits the blocks of sums of products of int8, with the instruction that adds four of them and without, which
// not every processor has.
func int8s() (all []*function) {
	for _, rows := range []int{1, dotRows} {
		for _, cols := range []int{1, dotRows} {
			all = append(all,
				int8Block("int8Block%dx%d", rows, cols, func(f *function, sum, q, w vec, product vec) {
					// A product fits int16; the sum of two may not.
					f.do(smull, product, q, w)
					f.do(sadalp, sum, product)
					f.do(smull2, product, q, w)
					f.do(sadalp, sum, product)
				}),
				int8Block("int8Block%dx%dDot", rows, cols, func(f *function, sum, q, w, _ vec) { f.do(sdot, sum, q, w) }))
		}
	}
	return all
}

// int8Block is for whole vectors of sixteen; add adds the products of two to sums.
func int8Block(name string, rows, cols int, add func(f *function, sum, q, w, product vec)) *function {
	f := newFunction(fmt.Sprintf(name, rows, cols), "func(k int, q, w *int8, sums *int32)", "is",
		fmt.Sprintf("for i := range %d {", rows), fmt.Sprintf("	for j := range %d {", cols),
		fmt.Sprintf("		for at := range k &^ 15 { sums[i*%d+j] += q[i*k+at] * w[j*k+at] }", cols), "	}", "}")
	k, result := f.param("k"), f.param("sums")
	pointers := func(first string, n int) []string {
		all := []string{first}
		for i := range n - 1 {
			all = append(all, f.int())
			f.ins("ADD", k, all[i], all[i+1])
		}
		return all
	}
	q, w := pointers(f.param("q"), rows), pointers(f.param("w"), cols)
	x, y, product, sums := f.vecs(rows), f.vec(), f.vec(), f.vecs(rows*cols)
	for _, s := range sums {
		f.zero(s)
	}
	f.ins("SUBS", "$16", k)
	f.ins("BLT", "done")
	f.label("vectors")
	for i, r := range x {
		f.ins("VLD1.P", mem(16, q[i]), list(r))
	}
	for j, from := range w {
		f.ins("VLD1.P", mem(16, from), list(y))
		for i, r := range x {
			add(f, sums[i*cols+j], r, y, product)
		}
	}
	f.ins("SUBS", "$16", k)
	f.ins("BGE", "vectors")
	f.label("done")
	for ; len(sums) > 0; sums = sums[cols:] {
		s := sums[0]
		if cols == 1 {
			f.do(addAll, s, s)
			f.ins("FMOVS.P", s.part(), mem(4, result))
			continue
		}
		f.do(addp, s, s, sums[1])
		f.do(addp, sums[2], sums[2], sums[3])
		f.do(addp, s, s, sums[2])
		f.ins("VST1.P", list(s), mem(16, result))
	}
	f.ret()
	return f
}
