package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// addRows emits the sum of rows, each times a factor, that lie a stride apart. Of a few vectors at a time the sums stay in
// registers until the last row.
func addRows(v isa) {
	TEXT("addRows"+v.name, NOSPLIT, "func(k, n int, p, v *float32, strideV int, y *float32)")
	Doc("addRows"+v.name+" adds n rows of v, at least one, to y; the stride is in bytes, and k a multiple of the lanes.", "",
		"	for j := range n {", "		for c := range k {", "			y[c] += float32(p[j] * v[j][c])", "		}", "	}")
	Pragma("noescape")
	k, n, p := Load(Param("k"), GP64()), Load(Param("n"), GP64()), Load(Param("p"), GP64())
	from, stride, y := Load(Param("v"), GP64()), Load(Param("strideV"), GP64()), Load(Param("y"), GP64())
	at, row, left := GP64(), GP64(), GP64()
	factor, sums := v.reg(), make([]reg.VecVirtual, 8)
	for i := range sums {
		sums[i] = v.reg()
	}
	some := func(label string, vectors int) {
		size := vectors * v.bytes()
		Label(label)
		CMPQ(k, Imm(uint64(vectors*v.lanes)))
		JL(LabelRef(label + "end"))
		for i, s := range sums[:vectors] {
			VMOVUPS(Mem{Base: y, Disp: i * v.bytes()}, s)
		}
		MOVQ(p, at)
		MOVQ(from, row)
		MOVQ(n, left)
		Label(label + "row")
		VBROADCASTSS(Mem{Base: at}, factor)
		for disp := 0; disp < size; disp += line {
			PREFETCHT0(Mem{Base: row, Index: stride, Scale: 4, Disp: disp}) // rows are too far apart to be guessed
		}
		for i, s := range sums[:vectors] {
			product := v.reg()
			VMULPS(Mem{Base: row, Disp: i * v.bytes()}, factor, product)
			VADDPS(product, s, s)
		}
		ADDQ(Imm(4), at)
		ADDQ(stride, row)
		DECQ(left)
		JNZ(LabelRef(label + "row"))
		for i, s := range sums[:vectors] {
			VMOVUPS(s, Mem{Base: y, Disp: i * v.bytes()})
		}
		ADDQ(U32(uint32(size)), y)
		ADDQ(U32(uint32(size)), from)
		SUBQ(U32(uint32(vectors*v.lanes)), k)
		JMP(LabelRef(label))
		Label(label + "end")
	}
	some("eight", 8)
	some("one", 1)
	VZEROUPPER()
	RET()
}
