package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// block emits the kernel of a block of c of the given height, two vectors wide, whose left
// operand is a panel. Every row keeps two sums in registers; each step of the loop reads
// two vectors of b and one element of a for each row. step is the distance between steps
// in the panel of a.
func block(v isa, rows, step int) {
	name := fmt.Sprintf("block%dx%d%s", rows, 2*v.lanes, v.name)
	TEXT(name, NOSPLIT, "func(k int, a, b, c *float32, stride int, add bool)")
	Doc(blockDoc(v, rows, fmt.Sprintf("%s computes %d rows of two vectors each: with a of %d, b of %d and c of stride elements a row,",
		name, rows, step, 2*v.lanes), "a[p][i]")...)
	Pragma("noescape")
	k, a := Load(Param("k"), GP64()), Load(Param("a"), GP64())
	element := func(i int) Mem { return Mem{Base: a, Disp: 4 * i} }
	blockBody(v, rows, k, element, func() { ADDQ(Imm(uint64(4*step)), a) })
}

// looseBlock is block for a left operand in any order: two strides find its elements. One
// register points to every third row, which addressing reaches the two after it from.
func looseBlock(v isa, rows int) {
	name := fmt.Sprintf("loose%dx%d%s", rows, 2*v.lanes, v.name)
	TEXT(name, NOSPLIT, "func(k int, a *float32, lane, step int, b, c *float32, stride int, add bool)")
	Doc(blockDoc(v, rows, fmt.Sprintf("%s computes %d rows of two vectors each: with b of %d and c of stride elements a row,",
		name, rows, 2*v.lanes), "a[i*lane+p*step]")...)
	Pragma("noescape")
	k, a := Load(Param("k"), GP64()), []reg.Register{Load(Param("a"), GP64())}
	lane, step := Load(Param("lane"), GP64()), Load(Param("step"), GP64())
	SHLQ(Imm(2), lane)
	SHLQ(Imm(2), step)
	for i := 3; i < rows; i += 3 {
		next := GP64()
		LEAQ(Mem{Base: a[len(a)-1], Index: lane, Scale: 2}, next)
		ADDQ(lane, next)
		a = append(a, next)
	}
	element := func(i int) Mem {
		m := Mem{Base: a[i/3]}
		if i%3 > 0 {
			m.Index, m.Scale = lane, uint8(i%3)
		}
		return m
	}
	blockBody(v, rows, k, element, func() {
		for _, r := range a {
			ADDQ(step, r)
		}
	})
}

func blockDoc(v isa, rows int, first, element string) []string {
	return []string{first, "",
		fmt.Sprintf("	for i := range %d {", rows),
		fmt.Sprintf("		for j := range %d {", 2*v.lanes),
		"			var sum float32",
		"			for p := range k {",
		fmt.Sprintf("				sum = fma(%s, b[p][j], sum)", element),
		"			}",
		"			if add {",
		"				sum = c[i][j] + sum",
		"			}",
		"			c[i][j] = sum",
		"		}",
		"	}"}
}

// blockBody emits all but the addressing of a: element is where that of a row is, and
// advance moves it on by a step.
func blockBody(v isa, rows int, k reg.Register, element func(row int) Mem, advance func()) {
	b, c, stride := Load(Param("b"), GP64()), Load(Param("c"), GP64()), Load(Param("stride"), GP64())
	SHLQ(Imm(2), stride)

	ahead := GP64()
	MOVQ(c, ahead)
	sums := make([][2]reg.VecVirtual, rows)
	for i := range sums {
		PREFETCHT0(Mem{Base: ahead}) // c is needed only after the loop
		PREFETCHT0(Mem{Base: ahead, Disp: 2*v.bytes() - 4})
		if i < rows-1 {
			ADDQ(stride, ahead)
		}
		for j := range sums[i] {
			sums[i][j] = v.reg()
			zero(sums[i][j])
		}
	}
	b0, b1 := v.reg(), v.reg()
	x := [2]reg.VecVirtual{v.reg(), v.reg()} // two, so that no broadcast waits for the one before
	TESTQ(k, k)
	JZ(LabelRef("store"))

	Label("loop")
	VMOVUPS(Mem{Base: b}, b0)
	VMOVUPS(Mem{Base: b, Disp: v.bytes()}, b1)
	for line := 0; line < 2*v.bytes(); line += 64 {
		PREFETCHT0(Mem{Base: b, Disp: 1024 + line})
	}
	for i := range sums {
		VBROADCASTSS(element(i), x[i%2])
		VFMADD231PS(b0, x[i%2], sums[i][0])
		VFMADD231PS(b1, x[i%2], sums[i][1])
	}
	advance()
	ADDQ(U32(2*v.bytes()), b)
	DECQ(k)
	JNZ(LabelRef("loop"))

	Label("store")
	add := Load(Param("add"), GP8())
	TESTB(add, add)
	JZ(LabelRef("set"))
	for i := range sums {
		for j, s := range sums[i] {
			VADDPS(Mem{Base: c, Disp: j * v.bytes()}, s, s)
			VMOVUPS(s, Mem{Base: c, Disp: j * v.bytes()})
		}
		if i < rows-1 {
			ADDQ(stride, c)
		}
	}
	VZEROUPPER()
	RET()
	Label("set")
	for i := range sums {
		for j, s := range sums[i] {
			VMOVUPS(s, Mem{Base: c, Disp: j * v.bytes()})
		}
		if i < rows-1 {
			ADDQ(stride, c)
		}
	}
	VZEROUPPER()
	RET()
}
