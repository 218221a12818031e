package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

var (
	// named is a test as a page names it, a function or a script.
	named = regexp.MustCompile("`(Test[A-Z]\\w+|\\w+\\.txtar)`")
	// defined is the head of a test function.
	defined = regexp.MustCompile(`(?m)^func (Test[A-Z]\w+)\(`)
)

// TestEveryFailureNamesItsTests reads the tables of failures.md, each row of which ends
// with the tests that show what it says.
func TestEveryFailureNamesItsTests(t *testing.T) {
	root := testdata.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "failures.md"))
	if err != nil {
		t.Fatal(err)
	}
	have, rows := tests(t, root), 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "-") || strings.TrimSpace(cells[3]) == "test" {
			continue
		}
		rows++
		names := named.FindAllStringSubmatch(cells[3], -1)
		if names == nil {
			t.Errorf("no test is named for:%s", cells[1])
		}
		for _, n := range names {
			if !have[n[1]] {
				t.Errorf("there is no test %s, named for:%s", n[1], cells[1])
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d rows were found; the tables have another form", rows)
	}
}

// tests returns the names of all test functions and scripts of the project.
func tests(t *testing.T, root string) map[string]bool {
	t.Helper()
	have := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".txtar"):
			have[d.Name()] = true
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range defined.FindAllSubmatch(text, -1) {
				have[string(m[1])] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return have
}
