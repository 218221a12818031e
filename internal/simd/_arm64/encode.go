package main

import (
	"fmt"
	"strings"
)

// vec is a vector register by its number. Go calls the first 128 bits of it V, and any
// part of it as one number F.
type vec uint32

func (r vec) String() string { return fmt.Sprintf("V%d.S4", uint32(r)) }

// part returns the name that Go has for the register of a single number.
func (r vec) part() string { return fmt.Sprintf("F%d", uint32(r)) }

// encoding is an instruction on vector registers: its bits with zeros for the registers,
// its name, and the shapes of its operands, the result first, as disassemblers write
// them. The numbers are those of the Arm Architecture Reference Manual, chapter C7.
type encoding struct {
	word   uint32
	name   string
	shapes string
	last   string // an immediate
}

var (
	fadd  = encoding{0x4e20d400, "fadd", "4s 4s 4s", ""}
	fsub  = encoding{0x4ea0d400, "fsub", "4s 4s 4s", ""}
	fmul  = encoding{0x6e20dc00, "fmul", "4s 4s 4s", ""}
	fdiv  = encoding{0x6e20fc00, "fdiv", "4s 4s 4s", ""}
	fmla  = encoding{0x4e20cc00, "fmla", "4s 4s 4s", ""}
	fmls  = encoding{0x4ea0cc00, "fmls", "4s 4s 4s", ""}
	fmax  = encoding{0x4e20f400, "fmax", "4s 4s 4s", ""}
	fmin  = encoding{0x4ea0f400, "fmin", "4s 4s 4s", ""}
	faddp = encoding{0x6e20d400, "faddp", "4s 4s 4s", ""}
	fsqrt = encoding{0x6ea1f800, "fsqrt", "4s 4s", ""}
	fneg  = encoding{0x6ea0f800, "fneg", "4s 4s", ""}

	fadd64  = encoding{0x4e60d400, "fadd", "2d 2d 2d", ""}
	fmla64  = encoding{0x4e60cc00, "fmla", "2d 2d 2d", ""}
	addPair = encoding{0x7e30d800, "faddp", "s 2s", ""}
	addBoth = encoding{0x7e70d800, "faddp", "d 2d", ""}
	maxOf   = encoding{0x6e30f800, "fmaxv", "s 4s", ""}

	scvtf  = encoding{0x4e21d800, "scvtf", "4s 4s", ""}
	widen  = encoding{0x0e217800, "fcvtl", "4s 4h", ""}
	narrow = encoding{0x0e216800, "fcvtn", "4h 4s", ""}
	lower  = encoding{0x0e617800, "fcvtl", "2d 2s", ""}
	upper  = encoding{0x4e617800, "fcvtl2", "2d 4s", ""}

	add    = encoding{0x4ea08400, "add", "4s 4s 4s", ""}
	sub    = encoding{0x6ea08400, "sub", "4s 4s 4s", ""}
	and    = encoding{0x4e201c00, "and", "16b 16b 16b", ""}
	orr    = encoding{0x4ea01c00, "orr", "16b 16b 16b", ""}
	bit    = encoding{0x6ea01c00, "bit", "16b 16b 16b", ""}
	cmhi   = encoding{0x6ea03400, "cmhi", "4s 4s 4s", ""}
	sxtl8  = encoding{0x0f08a400, "sxtl", "8h 8b", ""}
	sxtl16 = encoding{0x0f10a400, "sxtl", "4s 4h", ""}
	shll16 = encoding{0x2e613800, "shll", "4s 4h", "#16"}
	shrn16 = encoding{0x0f108400, "shrn", "4h 4s", "#16"}

	smull  = encoding{0x0e20c000, "smull", "8h 8b 8b", ""}
	smull2 = encoding{0x4e20c000, "smull2", "8h 16b 16b", ""}
	sadalp = encoding{0x4e606800, "sadalp", "4s 8h", ""}
	sdot   = encoding{0x4e809400, "sdot", "4s 16b 16b", ""}
	addp   = encoding{0x4ea0bc00, "addp", "4s 4s 4s", ""}
	addAll = encoding{0x4eb1b800, "addv", "s 4s", ""}

	trn1 = encoding{0x4e802800, "trn1", "4s 4s 4s", ""}
	trn2 = encoding{0x4e806800, "trn2", "4s 4s 4s", ""}
	zip1 = encoding{0x4ec03800, "zip1", "2d 2d 2d", ""}
	zip2 = encoding{0x4ec07800, "zip2", "2d 2d 2d", ""}
)

// shl, sshr and ushr shift the lanes of a vector by n bits, 0 < n < 32.
func shl(n int) encoding  { return shift(0x4f005400, "shl", 32+n, n) }
func sshr(n int) encoding { return shift(0x4f000400, "sshr", 64-n, n) }
func ushr(n int) encoding { return shift(0x6f000400, "ushr", 64-n, n) }

func shift(word uint32, name string, field, n int) encoding {
	return encoding{word | uint32(field)<<16, name, "4s 4s", fmt.Sprintf("#%d", n)}
}

// fmlaBy adds the products of a vector and one lane of another.
func fmlaBy(lane int) encoding {
	return encoding{0x4f801000 | uint32(lane&1)<<21 | uint32(lane>>1)<<11, "fmla", fmt.Sprintf("4s 4s s[%d]", lane), ""}
}

// encode returns the instruction with its registers, the result first, and its text.
func (e encoding) encode(regs ...vec) (word uint32, text string) {
	shapes := strings.Fields(e.shapes)
	if len(regs) != len(shapes) {
		panic(fmt.Sprintf("%s has %d operands, not %d", e.name, len(shapes), len(regs)))
	}
	word = e.word
	var operands []string
	for i, r := range regs {
		word |= uint32(r) << [...]int{0, 5, 16}[i]
		switch shape := shapes[i]; shape {
		case "s", "d":
			operands = append(operands, fmt.Sprintf("%s%d", shape, r))
		default:
			operands = append(operands, fmt.Sprintf("v%d.%s", r, shape))
		}
	}
	if e.last != "" {
		operands = append(operands, e.last)
	}
	return word, e.name + " " + strings.Join(operands, ", ")
}
