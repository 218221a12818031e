package ops

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/testdata"
)

// TestTablesOfThePageHaveTheOrderOfTheContract: docs/protocol.md sends authors of plugins to the tables of docs/ops.md
// for the order of a call's tensors. Those that a cell names stand there in the order of each signature that has them.
func TestTablesOfThePageHaveTheOrderOfTheContract(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testdata.Root(t), "docs", "ops.md"))
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile(`\w+`)
	for _, op := range core.Ops() {
		_, section, _ := strings.Cut(string(page), "\n## "+string(op)+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		lists := tensors(op)
		compared := 0
		for line := range strings.Lines(section) {
			if !strings.HasPrefix(line, "| ") {
				continue
			}
			for cell := range strings.SplitSeq(line, "|") {
				words := word.FindAllString(cell, -1)
				for _, names := range lists {
					if n, ok := inOrder(words, names); !ok {
						t.Errorf("%s: the order of %q is not that of %v", op, strings.TrimSpace(cell), names)
					} else {
						compared += n
					}
				}
			}
		}
		if compared == 0 {
			t.Errorf("%s: no table of its section names two tensors", op)
		}
	}
}

// tensors are the names of the inputs, and those of the outputs, of each way to call an op.
func tensors(op core.Op) (lists [][]string) {
	for _, f := range tried(Of(op)) {
		f.DType, f.WeightDType = core.Float32, max(f.WeightDType, core.Float32)
		for _, pass := range []core.Pass{core.Forward, core.Backward} {
			s, err := core.NewSignature(op, pass, f)
			if err != nil {
				continue // facts that are no use by themselves
			}
			for _, args := range [][]core.Arg{s.In, s.Out} {
				var names []string
				for _, a := range args {
					names = append(names, a.Name)
				}
				lists = append(lists, names)
			}
		}
	}
	return lists
}

// inOrder reports whether the names that are among the words are first there in their order, and how many follow
// another.
func inOrder(words, names []string) (n int, ok bool) {
	last := -1
	for _, name := range names {
		at := slices.Index(words, name)
		if at < 0 {
			continue
		}
		if at < last {
			return 0, false
		}
		if last >= 0 {
			n++
		}
		last = at
	}
	return n, true
}
