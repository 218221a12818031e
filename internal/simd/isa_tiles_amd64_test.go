//go:build !noasm

package simd

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// tileCodes are the instructions on tiles, which Go's assembler has no names for, by what encodes
// them: the prefix that the third byte of VEX says, the opcode, and, for those without a place in memory,
// ModRM without the registers.
var tileCodes = map[[3]byte]string{
	{0, 0x49, 0x80}: "LDTILECFG", {0, 0x49, 0xc0}: "TILERELEASE", {3, 0x49, 0xc0}: "TILEZERO",
	{3, 0x4b, 0x80}: "TILELOADD", {2, 0x4b, 0x80}: "TILESTORED", {2, 0x5c, 0xc0}: "TDPBF16PS",
}

var byteOperand = regexp.MustCompile(`\$0x([0-9a-f]{2})(?:; BYTE |;)`)

// tileInstruction returns which one a line of bytes is; what it does not know remains BYTE, of which
// the table of what instructions need knows nothing.
func tileInstruction(operands string) string {
	var code []byte
	for _, m := range byteOperand.FindAllStringSubmatch(operands, -1) {
		b, err := strconv.ParseUint(m[1], 16, 8)
		if err != nil {
			return "BYTE"
		}
		code = append(code, byte(b))
	}
	const vex, map0F38 = 0xc4, 2
	if len(code) < 5 || code[0] != vex || code[1]&0x1f != map0F38 || strings.Count(operands, "$") != len(code) {
		return "BYTE"
	}
	if op, ok := tileCodes[[3]byte{code[2] & 3, code[3], code[4] & 0xc0}]; ok {
		return op
	}
	return "BYTE"
}

// TestBytesAreInstructionsOnTiles is what reading them is worth.
func TestBytesAreInstructionsOnTiles(t *testing.T) {
	for operands, want := range map[string]string{
		"$0xc4; BYTE $0xe2; BYTE $0x4a; BYTE $0x5c; BYTE $0xc4;":             "TDPBF16PS",
		"$0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0xc0;":             "TILERELEASE",
		"$0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xc0;":             "TILEZERO",
		"$0xc4; BYTE $0xe2; BYTE $0x4a; BYTE $0x5e; BYTE $0xc4;":             "BYTE", // on integers
		"$0xc4; BYTE $0xe1; BYTE $0x4a; BYTE $0x5c; BYTE $0xc4;":             "BYTE",
		"$0x62; BYTE $0xe2; BYTE $0x4a; BYTE $0x5c; BYTE $0xc4;":             "BYTE",
		"$0xc4; BYTE $0xe2; BYTE $0x4a; BYTE $0x5c; BYTE $196; BYTE $0xc4;":  "BYTE",
		"$0xc4; BYTE $0xe2; BYTE $0x4a; BYTE $0x5c; BYTE $0xc4; BYTE $0xc4":  "BYTE",
		"$0xc4; BYTE $0x82; BYTE $0x7b; BYTE $0x4b; BYTE $0xa4; BYTE $0x16;": "TILELOADD",
	} {
		if got := tileInstruction(operands); got != want {
			t.Errorf("%s is %s, want %s", operands, got, want)
		}
	}
}
