package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/reg"
)

// Neither avo nor Go's assembler has the instructions on tiles, so that they are written as
// bytes, with what a disassembler makes of them as a comment; a test compares the two. The
// numbers are those of volume 2 of Intel's "64 and IA-32 Architectures Software Developer's
// Manual".

// tmm is a tile register by its number.
type tmm byte

// amxBytes are an instruction on tiles.
type amxBytes struct {
	code []byte
	text string
}

// String returns the line of assembly.
func (b amxBytes) String() string {
	var s strings.Builder
	for _, c := range b.code {
		fmt.Fprintf(&s, "BYTE $0x%02x; ", c)
	}
	return s.String() + "// " + b.text
}

// The prefixes that are folded into an encoding, by their numbers there.
const (
	vexNone = 0
	vexF3   = 2
	vexF2   = 3
)

// vex encodes an instruction of the map 0F38 with 128 bits: prefix, opcode, the registers of
// its ModRM byte and the extra one, and what follows. high has bits 5 and 6 set where base and
// index are registers from 8 on.
func vex(prefix, opcode, extra byte, high byte, rest ...byte) []byte {
	return append([]byte{0xc4, 0xe2 &^ high, 0x78&^(extra<<3) | prefix, opcode}, rest...)
}

// memory encodes the place base+index+disp for the register r of the instruction, in the form
// with an index, which tiles need.
func memory(r byte, base, index reg.GPPhysical, disp int) (high byte, rest []byte) {
	b, i := byte(base.PhysicalIndex()), byte(index.PhysicalIndex())
	high = b>>3<<5 | i>>3<<6
	return high, []byte{0x84 | r<<3, i&7<<3 | b&7, byte(disp), byte(disp >> 8), byte(disp >> 16), byte(disp >> 24)}
}

// place is what a disassembler calls that.
func place(base, index reg.GPPhysical, disp int) string {
	return fmt.Sprintf("%#x(%%%s,%%%s,1)", disp, name64(base), name64(index))
}

func name64(r reg.GPPhysical) string {
	if i := r.PhysicalIndex(); i < 8 {
		return []string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"}[i]
	}
	return strings.ToLower(r.Asm())
}

// tileLoad reads a tile whose rows lie index bytes apart.
func tileLoad(t tmm, base, index reg.GPPhysical, disp int) amxBytes {
	high, rest := memory(byte(t), base, index, disp)
	return amxBytes{vex(vexF2, 0x4b, 0, high, rest...), fmt.Sprintf("tileloadd %s,%%tmm%d", place(base, index, disp), t)}
}

// tileStore writes one.
func tileStore(t tmm, base, index reg.GPPhysical, disp int) amxBytes {
	high, rest := memory(byte(t), base, index, disp)
	return amxBytes{vex(vexF3, 0x4b, 0, high, rest...), fmt.Sprintf("tilestored %%tmm%d,%s", t, place(base, index, disp))}
}

// tileZero clears a tile.
func tileZero(t tmm) amxBytes {
	return amxBytes{vex(vexF2, 0x49, 0, 0, 0xc0|byte(t)<<3), fmt.Sprintf("tilezero %%tmm%d", t)}
}

// tileProduct adds a*b to sum, pairs of bfloat16 to float32.
func tileProduct(sum, a, b tmm) amxBytes {
	return amxBytes{vex(vexF3, 0x5c, byte(b), 0, 0xc0|byte(sum)<<3|byte(a)),
		fmt.Sprintf("tdpbf16ps %%tmm%d,%%tmm%d,%%tmm%d", b, a, sum)}
}

// tileConfig sets the sizes of all tiles from 64 bytes at base.
func tileConfig(base reg.GPPhysical) amxBytes {
	b := byte(base.PhysicalIndex())
	return amxBytes{vex(vexNone, 0x49, 0, b>>3<<5, 0x80|b&7, 0, 0, 0, 0), fmt.Sprintf("ldtilecfg 0x0(%%%s)", name64(base))}
}

// tileRelease ends the use of tiles.
func tileRelease() amxBytes { return amxBytes{vex(vexNone, 0x49, 0, 0, 0xc0), "tilerelease"} }

// emit adds an instruction on tiles to the function. It says nothing about registers, so
// that only functions may have it which name all theirs.
func (b amxBytes) emit() { Instruction(&ir.Instruction{Opcode: b.String()}) }
