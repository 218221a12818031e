package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mmcloughlin/avo/reg"
)

// TestBytesAreWhatTheirCommentsSay gives instructions with each register in each place to a
// disassembler, and all that the assembly has.
func TestBytesAreWhatTheirCommentsSay(t *testing.T) {
	registers := []reg.GPPhysical{reg.RAX, reg.RCX, reg.RDX, reg.RBX, reg.RSI, reg.RDI, reg.R8, reg.R9, reg.R10, reg.R11,
		reg.R14, reg.R15}
	all := []amxBytes{tileRelease()}
	for i, base := range registers {
		all = append(all, tileConfig(base))
		for _, index := range registers {
			all = append(all, tileLoad(tmm(i%8), base, index, 0), tileStore(tmm(7-i%8), base, index, 0x1400))
		}
	}
	for sum := range tmm(8) {
		all = append(all, tileZero(sum), tileProduct(sum, (sum+1)%8, (sum+2)%8), tileProduct(sum, (sum+6)%8, (sum+3)%8))
	}
	for _, b := range all {
		if !strings.HasSuffix(b.String(), "; // "+b.text) {
			t.Errorf("the line %q does not end with %q", b, b.text)
		}
	}
	var code []byte
	var want []string
	for _, b := range all {
		code, want = append(code, b.code...), append(want, b.text)
	}
	source, err := os.ReadFile("../asm_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^\t((?:BYTE \$0x[0-9a-f]{2}; )+)// (.*)$`).FindAllStringSubmatch(string(source), -1)
	if n := strings.Count(string(source), "\tBYTE "); n == 0 || n != len(lines) {
		t.Fatalf("%d lines of bytes in the assembly, of which %d have a comment", n, len(lines))
	}
	for _, line := range lines {
		for c := range strings.FieldsFuncSeq(line[1], func(r rune) bool { return r == ';' || r == ' ' }) {
			var b byte
			if _, err := fmt.Sscanf(c, "$0x%x", &b); err == nil {
				code = append(code, b)
			}
		}
		want = append(want, line[2])
	}
	got := disassemble(t, code)
	if len(got) != len(want) {
		t.Fatalf("%d instructions, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q, and its comment says %q", got[i], want[i])
		}
	}
}

// disassemble returns the instructions as text, with one space after the name.
func disassemble(t *testing.T, code []byte) []string {
	t.Helper()
	if _, err := exec.LookPath("objdump"); err != nil {
		t.Skipf("no objdump, which Debian has in the package binutils: %v", err)
	}
	file := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(file, code, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, m := range regexp.MustCompile(`(?m)^ *[0-9a-f]+:\t(.*)$`).FindAllStringSubmatch(string(out), -1) {
		text = append(text, strings.Join(strings.Fields(m[1]), " "))
	}
	return text
}
