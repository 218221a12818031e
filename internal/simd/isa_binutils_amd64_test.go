//go:build linux && !noasm

package simd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestAnotherAssemblerAgrees lets the GNU assembler judge the instructions that are really in
// a program, as its disassembler reads them: told what each set of functions asks for, it refuses
// all that needs more. So it checks the table of TestAssemblyUsesOnlyWhatIsAskedFor, too.
func TestAnotherAssemblerAgrees(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds this test again, with symbols")
	}
	for _, tool := range []string{"go", "objdump", "as"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s: %v", tool, err)
		}
	}
	program := filepath.Join(t.TempDir(), "simd.test")
	if out, err := exec.Command("go", "test", "-c", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	listing, err := exec.Command("objdump", "-d", "--no-show-raw-insn", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range instructionSets {
		t.Run(set.suffix, func(t *testing.T) {
			source, functions := disassembled(string(listing), set.suffix)
			declared := 0
			for _, f := range allAssembly(t) {
				if strings.HasSuffix(f.name, set.suffix) {
					declared++
				}
			}
			if functions != declared {
				t.Fatalf("%d functions in the program, %d in the source", functions, declared)
			}
			for _, message := range assemble(source, set.needs) {
				t.Error(message)
			}
			if assemble(source, set.needs[:1]) == nil {
				t.Errorf("all of it is accepted with %s alone: nothing was checked", set.needs[0])
			}
		})
	}
}

var (
	functionHead = regexp.MustCompile(`^[0-9a-f]+ <.*/simd\.(\w+)\.abi0>:$`)
	instructed   = regexp.MustCompile(`^ +[0-9a-f]+:\t([^#<]+)`)
	jump         = regexp.MustCompile(`^(j\w+) .*`)
)

// disassembled returns the instructions of the functions whose names end so, as source for
// the GNU assembler, and how many functions there are.
func disassembled(listing, suffix string) (source string, functions int) {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(listing) {
		line = strings.TrimRight(line, "\n")
		if strings.HasSuffix(line, ">:") {
			head := functionHead.FindStringSubmatch(line)
			inside = head != nil && strings.HasSuffix(head[1], suffix)
			if inside {
				functions++
				b.WriteString("# " + head[1] + "\n")
			}
		}
		if ins := instructed.FindStringSubmatch(line); inside && ins != nil {
			b.WriteString(jump.ReplaceAllString(strings.TrimSpace(ins[1]), "$1 .") + "\n")
		}
	}
	return b.String(), functions
}

// assemble returns what the assembler has against the source where a CPU has these features
// and no others.
func assemble(source string, features []string) []string {
	arch := ".arch generic64\n"
	for _, name := range features {
		arch += ".arch ." + strings.ToLower(name) + "\n"
	}
	as := exec.Command("as", "-o", os.DevNull)
	as.Stdin = strings.NewReader(arch + source)
	out, err := as.CombinedOutput()
	if err == nil {
		return nil
	}
	var messages []string
	for message := range strings.Lines(string(out)) {
		messages = append(messages, strings.TrimSpace(message)+where(arch+source, message))
	}
	return append(messages, err.Error())
}

var lineNumber = regexp.MustCompile(`:(\d+): Error`)

// where returns the function and the instruction that an error is about.
func where(source, message string) string {
	m := lineNumber.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	number, err := strconv.Atoi(m[1])
	if err != nil {
		return ""
	}
	lines := strings.Split(source, "\n")[:number]
	function := ""
	for _, line := range lines {
		if name, ok := strings.CutPrefix(line, "# "); ok {
			function = name
		}
	}
	return " (" + function + ": " + lines[number-1] + ")"
}
