//go:build !noasm

package simd

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestAssemblyUsesOnlyWhatIsAskedFor reads all assembly for amd64. That it runs here says
// little about other machines: what an instruction needs follows from the encoding that the
// assembler gives it, and so from its registers.
func TestAssemblyUsesOnlyWhatIsAskedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads the source, which is the same on an emulated processor")
	}
	for _, f := range allAssembly(t) {
		for _, problem := range f.check() {
			t.Error(problem)
		}
	}
}

// TestAssemblyThatOtherMachinesRefuse is what the test above is worth.
func TestAssemblyThatOtherMachinesRefuse(t *testing.T) {
	for _, c := range []struct{ name, function, code, want string }{
		{"a register from 16 on", "fAVX2", "VUNPCKLPD Y14, Y7, Y16\nVZEROUPPER\nRET", "Y16 is a register of AVX-512"},
		{"512 bits", "fStreamAVX2", "VADDPS Z0, Z1, Z2\nVZEROUPPER\nRET", "Z0 is a register of AVX-512"},
		{"a mask", "fAVX2", "VMOVUPS Y0, K1, (AX)\nVZEROUPPER\nRET", "K1 is a register of AVX-512"},
		{"an index from 16 on", "fAVX2", "VGATHERDPS Y1, (AX)(Y17*4), Y0\nVZEROUPPER\nRET", "Y17 is a register of AVX-512"},
		{"a mask in a suffix", "fAVX2", "VMOVUPS.Z (AX), Y0\nVZEROUPPER\nRET", "needs AVX512F"},
		{"XOR of a high register", "fAVX512", "VXORPS X16, X16, X16\nRET", "needs AVX512DQ"},
		{"XOR of 512 bits", "fAVX512", "VXORPS Z1, Z1, Z1\nVZEROUPPER\nRET", "needs AVX512DQ"},
		{"products of bytes", "fAVX512", "VPDPBUSD Z1, Z1, Z1\nVZEROUPPER\nRET", "needs AVX512_VNNI"},
		{"a shift without flags", "fAVX2", "SHRXL AX, BX, CX\nRET", "needs BMI2"},
		{"vectors where every amd64 is meant", "fenceAMD64", "VXORPS X0, X0, X0\nRET", "needs AVX"},
		{"an instruction that nobody knows", "fAVX512", "VNEW X0, X0\nRET", "say what VNEW needs"},
		{"a form that does not exist", "fAVX2", "VINSERTF128 $1, X0, X1, X2\nRET", "has no form"},
		{"upper halves left", "fAVX2", "loop:\nVADDPS Y0, Y1, Y2\nJNZ loop\nRET", "RET without VZEROUPPER"},
		{"upper halves left on one way out", "fAVX2", "VADDPS Y0, Y1, Y2\nJZ other\nVZEROUPPER\nRET\nother:\nRET",
			"RET without VZEROUPPER"},
		{"upper halves left by a jump", "fAVX2", "VADDPS Y0, Y1, Y2\nJZ out\nVZEROUPPER\nout:\nRET", "RET without VZEROUPPER"},
		{"upper halves left at the end", "fAVX2", "VADDPS Y0, Y1, Y2", "goes on"},
		{"a register that is not of vectors", "fAVX2", "VPBROADCASTD AX, X0\nRET", "needs AVX512F"},
		{"an order that is not in the instruction", "fAVX2", "VPERMQ Y0, Y1, Y2\nVZEROUPPER\nRET", "needs AVX512F"},
		{"a shift from memory", "fAVX2", "VPSLLD $1, (AX), X0\nRET", "needs AVX512F"},
		{"two on a line", "fAVX2", "MOVQ AX, BX; LZCNTQ AX, BX\nRET", "a line of its own"},
		{"one after a label", "fAVX2", "out: LZCNTQ AX, BX\nRET", "say what out: needs"},
		{"tiles", "fAVX512", "BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0xc0; // tilerelease\nRET", "needs AMX_TILE"},
		{"tiles left", "fAMX", "BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0x80; // ldtilecfg\nVZEROUPPER\nRET",
			"RET without TILERELEASE"},
		{"tiles left by a jump", "fAMX", "BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0x80; // ldtilecfg\nJZ out\n" +
			"BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0xc0; // tilerelease\nout:\nVZEROUPPER\nRET",
			"RET without TILERELEASE"},
		{"bytes of something else", "fAMX", "BYTE $0x0f; BYTE $0x05; // syscall\nRET", "say what BYTE needs"},
		{"a jump elsewhere", "fAVX2", "VADDPS Y0, Y1, Y2\nJMP ·gAVX2(SB)", "leaves the function"},
		{"a jump to a register", "fAVX2", "VADDPS Y0, Y1, Y2\nJMP AX", "leaves the function"},
		{"a jump without a label", "fAVX2", "VADDPS Y0, Y1, Y2\nJZ 2(PC)\nVZEROUPPER\nRET", "leaves the function"},
		{"a return elsewhere", "fAVX2", "VADDPS Y0, Y1, Y2\nVZEROUPPER\nRET ·gAVX2(SB)", "leaves the function"},
		{"old instructions on vectors", "fAVX2", "VADDPS Y0, Y1, Y2\nMOVSS X2, (AX)\nVZEROUPPER\nRET", "stalls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := parseAssembly("snippet", "TEXT ·"+c.function+"(SB), NOSPLIT, $0-8\n"+c.code+"\n")
			if len(f) != 1 {
				t.Fatalf("%d functions, want 1", len(f))
			}
			if got := strings.Join(f[0].check(), "\n"); !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

// TestInstructionSetsContainThoseBelow is why the variant of one may use functions of the next.
func TestInstructionSetsContainThoseBelow(t *testing.T) {
	for i, set := range instructionSets[1:] {
		above := instructionSets[i]
		for _, need := range set.needs {
			if !slices.Contains(above.needs, need) {
				t.Errorf("%s does not ask for %s, which %s does", above.suffix, need, set.suffix)
			}
		}
	}
	for _, set := range instructionSets {
		for _, need := range set.needs {
			if _, ok := features[need]; !ok {
				t.Errorf("%s asks for %s, which is not in the table of features", set.suffix, need)
			}
		}
	}
}

// asmFunction is a function of Go's assembler.
type asmFunction struct {
	file, name string
	code       []instruction
	labels     []string
}

type instruction struct {
	line     int
	op       string
	masked   bool // has a suffix, which only AVX-512 does
	labelled bool // a jump may lead here
	operands []string
}

// allAssembly returns all functions in assembly.
func allAssembly(t *testing.T) []asmFunction {
	t.Helper()
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly: %v", err)
	}
	var all []asmFunction
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parseAssembly(name, string(text))...)
	}
	return all
}

// parseAssembly reads what avo writes and a programmer may: one instruction or label a line.
func parseAssembly(file, text string) []asmFunction {
	var functions []asmFunction
	labelled := false
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "//")
		op, rest, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(line, "\t", " ")), " ")
		switch {
		case op == "TEXT":
			name, _, _ := strings.Cut(strings.TrimPrefix(rest, "·"), "(")
			functions = append(functions, asmFunction{file: file, name: name})
		case op == "" || op[0] == '#' || op == "DATA" || op == "GLOBL":
		case strings.HasSuffix(op, ":") && rest == "":
			last := &functions[len(functions)-1]
			last.labels, labelled = append(last.labels, strings.TrimSuffix(op, ":")), true
		default:
			ins := instruction{line: i + 1, labelled: labelled}
			labelled = false
			ins.op, _, ins.masked = strings.Cut(op, ".")
			if op == "BYTE" {
				ins.op, rest = tileInstruction(rest), ""
			}
			for operand := range strings.SplitSeq(rest, ",") {
				ins.operands = append(ins.operands, strings.TrimSpace(operand))
			}
			last := &functions[len(functions)-1]
			last.code = append(last.code, ins)
		}
	}
	return functions
}

// may returns what the function may use besides what every amd64 has.
func (f *asmFunction) may() []string {
	for _, set := range instructionSets {
		if strings.HasSuffix(f.name, set.suffix) {
			return set.needs
		}
	}
	return nil
}

// check returns what is wrong with the function, each with its line.
func (f *asmFunction) check() []string {
	var problems []string
	may, wide := f.may(), slices.ContainsFunc(f.code, func(ins instruction) bool { return ins.has('Y') || ins.has('Z') })
	tiles := slices.ContainsFunc(f.code, func(ins instruction) bool { return ins.op == "LDTILECFG" })
	for i, ins := range f.code {
		report := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%s:%d: %s: %s %s: ", f.file, ins.line, f.name, ins.op,
				strings.Join(ins.operands, ", "))+fmt.Sprintf(format, args...))
		}
		needs, err := ins.needs()
		if err != nil {
			report("%v", err)
		}
		for _, need := range needs {
			if !slices.Contains(may, need) {
				report("needs %s, which is not asked for", need)
			}
		}
		if !slices.Contains(may, "AVX512F") {
			for _, r := range ins.registers() {
				if r.evex() {
					report("%c%d is a register of AVX-512", r.kind, r.number)
				}
			}
		}
		switch {
		case ins.op == "RET" && wide && (i == 0 || f.code[i-1].op != "VZEROUPPER" || ins.labelled):
			report("RET without VZEROUPPER before it")
		case ins.op == "RET" && tiles && (i < 2 || f.code[i-2].op != "TILERELEASE" || f.code[i-1].labelled):
			report("RET without TILERELEASE and VZEROUPPER before it")
		case ins.op[0] == 'J' && !slices.Contains(f.labels, ins.operands[0]), ins.op == "RET" && ins.operands[0] != "":
			report("leaves the function")
		case i == len(f.code)-1 && ins.op != "RET" && ins.op != "JMP":
			report("goes on into what follows the function")
		case ins.op[0] != 'V' && ins.has('X') && wide:
			report("stalls some processors where vectors of 256 bits are in use: take the form with V")
		}
	}
	return problems
}

// register is one of vectors, 'X', 'Y' or 'Z', or a mask, 'K'.
type register struct {
	kind   byte
	number int
}

// evex reports whether only the encoding of AVX-512 has a place for the register.
func (r register) evex() bool { return r.kind == 'Z' || r.kind == 'K' || r.number >= 16 }

var registerName = regexp.MustCompile(`(?:^|\()([XYZK])([0-9]+)(?:$|\*)`)

// registers returns the vectors and masks among the operands and the indices in them.
func (ins *instruction) registers() []register {
	var all []register
	for _, operand := range ins.operands {
		for _, m := range registerName.FindAllStringSubmatch(operand, -1) {
			number, err := strconv.Atoi(m[2])
			if err == nil {
				all = append(all, register{m[1][0], number})
			}
		}
	}
	return all
}

func (ins *instruction) has(kind byte) bool {
	return slices.ContainsFunc(ins.registers(), func(r register) bool { return r.kind == kind })
}

// needs returns what the instruction needs besides what every amd64 has. The assembler
// takes the encoding of AVX-512 only where there is no other.
func (ins *instruction) needs() ([]string, error) {
	form, ok := instructionForms[ins.op]
	if !ok {
		return nil, fmt.Errorf("say what %s needs, in the table of this test", ins.op)
	}
	if slices.ContainsFunc(ins.operands, func(operand string) bool { return strings.Contains(operand, ";") }) {
		return nil, fmt.Errorf("an instruction wants a line of its own")
	}
	evex := ins.masked || slices.ContainsFunc(ins.registers(), register.evex) || form.x == none && form.y == none ||
		ins.newOperands()
	all := map[string]bool{}
	switch {
	case evex:
		all[form.evex] = true
		if !ins.has('Z') && !form.single {
			all["AVX512VL"] = true
		}
	case ins.has('Y'):
		all[form.y] = true
	default:
		all[form.x] = true
	}
	if strings.HasPrefix(ins.op, "VBROADCAST") && !evex && registerName.MatchString(ins.operands[0]) {
		all["AVX2"] = true // AVX itself broadcasts from memory alone
	}
	delete(all, amd64)
	if all[none] {
		return nil, fmt.Errorf("has no form of this width")
	}
	return slices.Sorted(maps.Keys(all)), nil
}

var (
	generalRegister = regexp.MustCompile(`^(?:[ABCD]X|[SD]I|[BS]P|R[0-9]+)$`)
	vectorShift     = regexp.MustCompile(`^VPS(?:LL|RL|RA)[DQW]$`)
)

// newOperands reports whether the instruction has operands that only AVX-512 lets it have: a
// general register to broadcast, an order of elements that is not in the instruction itself, or memory to shift.
func (ins *instruction) newOperands() bool {
	first := ins.operands[0]
	switch {
	case strings.HasPrefix(ins.op, "VPBROADCAST"):
		return generalRegister.MatchString(first)
	case ins.op == "VPERMQ" || ins.op == "VPERMPD":
		return !strings.HasPrefix(first, "$")
	case vectorShift.MatchString(ins.op):
		return strings.HasPrefix(first, "$") && strings.Contains(ins.operands[1], "(")
	}
	return false
}
