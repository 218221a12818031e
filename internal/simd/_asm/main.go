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
	for rows := 1; rows <= 14; rows++ {
		block(avx512, rows, 16)
		looseBlock(avx512, rows)
	}
	for rows := 1; rows <= 6; rows++ {
		block(avx2, rows, 8)
		looseBlock(avx2, rows)
	}
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
	}
	Generate()
}
