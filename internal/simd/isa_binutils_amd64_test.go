//go:build linux && !noasm

package simd

import (
	"debug/elf"
	"fmt"
	"math"
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
	// Without what debuggers need: names of functions stay.
	if out, err := exec.Command("go", "test", "-c", "-ldflags=-w", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	from, to := extent(t, program)
	listing, err := exec.Command("objdump", "-d", "--no-show-raw-insn", fmt.Sprintf("--start-address=%#x", from),
		fmt.Sprintf("--stop-address=%#x", to), program).Output()
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
			if messages, err := assemble(source, set.needs); err != nil {
				t.Error(err)
				for message := range strings.Lines(messages) {
					t.Error(strings.TrimSpace(message) + where(source, message))
				}
			}
			if _, err := assemble(source, set.needs[:1]); err == nil {
				t.Errorf("all of it is accepted with %s alone: nothing was checked", set.needs[0])
			}
		})
	}
}

// extent returns where the functions in assembly are in a program: the linker puts those of a package beside each
// other, and to read all of the program takes much longer. Were one elsewhere, their number would be wrong.
func extent(t *testing.T, program string) (from, to uint64) {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	from = math.MaxUint64
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && assemblyName.MatchString(s.Name) {
			from, to = min(from, s.Value), max(to, s.Value+s.Size)
		}
	}
	return from, to
}

var (
	assemblyName = regexp.MustCompile(`/simd\.\w+\.abi0$`)
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

// assemble has the assembler take the source where a CPU has these features and no others, and returns what it has
// against it.
func assemble(source string, features []string) (messages string, err error) {
	arch := ".arch generic64"
	for _, name := range features {
		arch += "; .arch ." + strings.ToLower(name)
	}
	as := exec.Command("as", "-o", os.DevNull)
	as.Stdin = strings.NewReader(arch + "; " + source) // on a line that is there, so that lines have their numbers
	out, err := as.CombinedOutput()
	return string(out), err
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
