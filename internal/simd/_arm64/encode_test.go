package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestWordsAreWhatTheirCommentsSay gives every word of the assembly to a disassembler,
// which must read it as the comment beside it does.
func TestWordsAreWhatTheirCommentsSay(t *testing.T) {
	code, _ := generate()
	var words []byte
	var want []string
	for _, m := range regexp.MustCompile(`WORD \$(0x[0-9a-f]{8}) // (.*)`).FindAllStringSubmatch(code, -1) {
		w, err := strconv.ParseUint(m[1], 0, 32)
		if err != nil {
			t.Fatal(err)
		}
		words = binary.LittleEndian.AppendUint32(words, uint32(w))
		want = append(want, m[2])
	}
	got := disassemble(t, words)
	if len(got) != len(want) || len(got) == 0 {
		t.Fatalf("%d instructions for %d words", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("word %#x is %q, and its comment says %q", words[4*i:4*i+4], got[i], want[i])
		}
	}
}

// TestEveryRegisterIsEncoded puts each register into each place of each encoding that
// the assembly has.
func TestEveryRegisterIsEncoded(t *testing.T) {
	var words []byte
	var want []string
	for _, e := range []encoding{fadd, fmlaBy(0), fmlaBy(1), fmlaBy(2), fmlaBy(3), fsqrt, addPair, addBoth, shl(1),
		shl(31), sshr(1), sshr(31), ushr(16)} {
		for place := range strings.Fields(e.shapes) {
			for r := vec(0); r < 32; r++ {
				regs := []vec{5, 10, 21}[:len(strings.Fields(e.shapes))]
				regs[place] = r
				word, text := e.encode(regs...)
				words = binary.LittleEndian.AppendUint32(words, word)
				want = append(want, text)
			}
		}
	}
	for i, got := range disassemble(t, words) {
		if got != want[i] {
			t.Errorf("word %d is %q, want %q", i, got, want[i])
		}
	}
}

// TestOnlyDotProductsAskForMore has an assembler that is told of Armv8.0 alone read all words: only functions
// that are called where there are dot products of int8 may have something else.
func TestOnlyDotProductsAskForMore(t *testing.T) {
	code, _ := generate()
	var all, dots strings.Builder
	for _, function := range strings.Split(code, "\nTEXT ·")[1:] {
		name, _, _ := strings.Cut(function, "(")
		into := &all
		if strings.HasSuffix(name, "DotNEON") {
			into = &dots
		}
		fmt.Fprintf(into, "# 1 %q\n", name) // what errors call the file
		for _, m := range regexp.MustCompile(`WORD \$0x[0-9a-f]{8} // (.*)`).FindAllStringSubmatch(function, -1) {
			into.WriteString(m[1] + "\n")
		}
	}
	if message := assemble(t, "armv8-a", all.String()); message != "" {
		t.Error(message)
	}
	if message := assemble(t, "armv8.2-a+dotprod", dots.String()); message != "" {
		t.Error(message)
	}
	if assemble(t, "armv8-a", dots.String()) == "" {
		t.Error("dot products are accepted everywhere: nothing was checked")
	}
}

// assemble returns what the GNU assembler has against the instructions on processors of an architecture.
func assemble(t *testing.T, arch, source string) string {
	t.Helper()
	const tool = "aarch64-linux-gnu-as"
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("no %s, which Debian has in the package binutils-aarch64-linux-gnu: %v", tool, err)
	}
	file := filepath.Join(t.TempDir(), "source.s")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool, "-march="+arch, "-o", os.DevNull, file).CombinedOutput()
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%v for %s:\n%s", err, arch, out)
}

// disassemble returns the instructions as text, with one space after the name.
func disassemble(t *testing.T, words []byte) []string {
	t.Helper()
	const tool = "aarch64-linux-gnu-objdump"
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("no %s, which Debian has in the package binutils-aarch64-linux-gnu: %v", tool, err)
	}
	file := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(file, words, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool, "-D", "-b", "binary", "-m", "aarch64", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, m := range regexp.MustCompile(`(?m)^ *[0-9a-f]+:\t[0-9a-f]{8} \t(\S+)\s+(.*?)( +//.*)?$`).FindAllStringSubmatch(string(out), -1) {
		text = append(text, fmt.Sprintf("%s %s", m[1], m[2]))
	}
	return text
}
