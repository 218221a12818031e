// Command asm generates the assembly of package simd, one file for everything:
//
//	go run . -out ../asm_amd64.s -stubs ../asm_amd64.go -pkg simd
//
// Each function is emitted once for every instruction set that it is worth having for;
// its comment is the Go loop that it equals.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("amd64,!noasm")
	for rows := 1; rows <= 6; rows++ {
		for vecs := 1; vecs <= 4; vecs++ {
			emitBlock(avx512, rows, vecs)
		}
		for vecs := 1; vecs <= 2; vecs++ {
			emitBlock(avx2, rows, vecs)
		}
	}
	emitAllTiles()
	emitSplitters()
	emitInt8()
	emitInt8Rows()
	transpose8()
	copyPanels()
	fence()
	prefetch()
	for _, v := range []isa{avx512, avx2} {
		elementwise(v)
		reductions(v)
		exponentials(v)
		results(v)
		results(v.streaming())
		fused(v)
		halves(v)
		bytes(v)
		nf4(v)
		codes(v)
		emitFew(v)
		addRows(v)
	}
	Generate()
}
