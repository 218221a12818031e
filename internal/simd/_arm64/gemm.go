package main

import "fmt"

// The largest block of c that a kernel computes: 24 of the 32 registers are sums, three
// hold a row of b, and what is left holds elements of a.
const (
	blockRows    = 8
	blockVectors = 3
	blockCols    = blockVectors * lanes
)

// block emits the kernel of a block of c of the given height, three vectors wide, whose
// left operand is a panel: the elements of a for all rows are one or two vectors, and
// every product takes one lane of them.
func block(rows int) *function {
	name := fmt.Sprintf("block%dx%d", rows, blockCols)
	f := newFunction(name, "func(k int, a, b, c *float32, stride int, add bool)",
		blockDoc(rows, fmt.Sprintf("with a of %d, b of %d and c of stride elements a row,", blockRows, blockCols),
			"a[p][i]")...)
	k, a := f.param("k"), f.param("a")
	x := f.vecs(blockRows / lanes)
	f.blockBody(rows, k, 4, func() {
		f.ins("VLD1.P", mem(4*blockRows, a), list(x...))
	}, func(row int) (vec, int) { return x[row/lanes], row % lanes })
	return f
}

// looseBlock is block for a left operand in any order: every row has a register that
// points to it, and all share one for the way from there.
func looseBlock(rows int) *function {
	name := fmt.Sprintf("loose%dx%d", rows, blockCols)
	f := newFunction(name, "func(k int, a *float32, lane, step int, b, c *float32, stride int, add bool)",
		blockDoc(rows, fmt.Sprintf("with b of %d and c of stride elements a row,", blockCols), "a[i*lane+p*step]")...)
	k, lane, step := f.param("k"), f.bytes("lane"), f.bytes("step")
	a := []string{f.param("a")}
	for i := range rows - 1 {
		a = append(a, f.int())
		f.ins("ADD", lane, a[i], a[i+1])
	}
	at := f.int()
	f.ins("MOVD", "ZR", at)
	x := f.vecs(5) // as many as are left, so that a load rarely waits for a product
	next := 0
	f.blockBody(rows, k, 1, func() {}, func(row int) (vec, int) {
		r := x[next%len(x)]
		next++
		f.ins("FMOVS", fmt.Sprintf("(%s)(%s)", a[row], at), r.part())
		if row == rows-1 {
			f.ins("ADD", step, at)
		}
		return r, 0
	})
	return f
}

func blockDoc(rows int, sizes, element string) []string {
	return []string{fmt.Sprintf("computes %d rows of three vectors each: %s", rows, sizes),
		fmt.Sprintf("for i := range %d {", rows),
		fmt.Sprintf("	for j := range %d {", blockCols),
		"		var sum float32",
		"		for p := range k {",
		fmt.Sprintf("			sum = fma(%s, b[p][j], sum)", element),
		"		}",
		"		if add {",
		"			sum = c[i][j] + sum",
		"		}",
		"		c[i][j] = sum",
		"	}",
		"}"}
}

// blockBody emits all but the addressing of a: load is called at the start of each step,
// and element returns the vector and the lane that hold the element of a row.
func (f *function) blockBody(rows int, k string, unroll int, load func(), element func(row int) (vec, int)) {
	b, c, stride := f.param("b"), f.param("c"), f.bytes("stride")
	y := f.vecs(blockVectors)
	ahead := f.int()
	f.ins("MOVD", c, ahead)
	sums := make([][]vec, rows)
	for i := range sums {
		f.ins("PRFM", mem(0, ahead), "PLDL1KEEP") // c is needed only after the loop
		f.ins("PRFM", mem(4*blockCols-4, ahead), "PLDL1KEEP")
		if i < rows-1 {
			f.ins("ADD", stride, ahead)
		}
		sums[i] = f.vecs(blockVectors)
		for _, s := range sums[i] {
			f.zero(s)
		}
	}
	step := func() {
		f.ins("VLD1.P", mem(4*blockCols, b), list(y...))
		load()
		for i := range sums {
			r, lane := element(i)
			for j, s := range sums[i] {
				f.do(fmlaBy(lane), s, y[j], r)
			}
		}
	}
	if unroll > 1 {
		f.ins("SUBS", fmt.Sprintf("$%d", unroll), k)
		f.ins("BLT", "rest")
		f.label("steps")
		for range unroll {
			step()
		}
		f.ins("SUBS", fmt.Sprintf("$%d", unroll), k)
		f.ins("BGE", "steps")
		f.label("rest")
		f.ins("ADDS", fmt.Sprintf("$%d", unroll), k)
	}
	f.ins("CBZ", k, "store")
	f.label("step")
	step()
	f.ins("SUBS", "$1", k)
	f.ins("BNE", "step")
	f.label("store")
	f.storeBlock(sums, y, c, stride)
}

// storeBlock emits the end of a kernel: c is set, or added to; old is room for a row of it.
func (f *function) storeBlock(sums [][]vec, old []vec, c, stride string) {
	add := f.int()
	f.ins("MOVBU", f.at("add", ""), add)
	f.ins("CBZ", add, "set")
	for i := range sums {
		f.ins("VLD1", mem(0, c), list(old...))
		for j, s := range sums[i] {
			f.do(fadd, s, old[j], s)
		}
		f.storeRow(sums, i, c, stride)
	}
	f.ret()
	f.label("set")
	for i := range sums {
		f.storeRow(sums, i, c, stride)
	}
	f.ret()
}

func (f *function) storeRow(sums [][]vec, i int, c, stride string) {
	f.ins("VST1", list(sums[i]...), mem(0, c))
	if i < len(sums)-1 {
		f.ins("ADD", stride, c)
	}
}
