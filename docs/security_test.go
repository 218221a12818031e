package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

// namedTest is how a page names a test: with its subtest, if any, and its package.
var namedTest = regexp.MustCompile("`((?:Test|Fuzz)\\w+)(?:/(\\w+))?` \\(([\\w/]+)\\)")

// TestEveryClaimAboutSecurityNamesATest: and every test that the page names exists.
func TestEveryClaimAboutSecurityNamesATest(t *testing.T) {
	root := testdata.Root(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	claims := 0
	for line := range strings.Lines(string(page)) {
		named := namedTest.FindAllStringSubmatch(line, -1)
		for _, m := range named {
			if !hasTest(t, root, m[3], m[1], m[2]) {
				t.Errorf("there is no test %s in %s", strings.TrimSuffix(m[1]+"/"+m[2], "/"), m[3])
			}
		}
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| claim ") {
			claims++
			if len(named) == 0 {
				t.Errorf("no test is named for the claim: %s", line)
			}
		}
		if n := strings.Count(line, "`Test") + strings.Count(line, "`Fuzz"); n != len(named) {
			t.Errorf("a test is named without its package: %s", line)
		}
	}
	if claims == 0 {
		t.Error("the page makes no claim")
	}
}

// hasTest reports whether a package has the test, or the script of that name.
func hasTest(t *testing.T, root, pkg, name, script string) bool {
	t.Helper()
	dir := filepath.Join(root, filepath.FromSlash(pkg))
	if script != "" {
		if _, err := os.Stat(filepath.Join(dir, "testdata", "script", script+".txtar")); err != nil {
			return false
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}

func TestTestsThatDoNotExistAreNoticed(t *testing.T) {
	root := testdata.Root(t)
	for _, tc := range []struct {
		pkg, name, script string
		want              bool
	}{
		{"docs", "TestTestsThatDoNotExistAreNoticed", "", true},
		{"docs", "TestTestsThatDoNotExist", "", false},
		{"core", "TestTestsThatDoNotExistAreNoticed", "", false},
		{"cmd/tune", "TestScripts", "help", true},
		{"cmd/tune", "TestScripts", "no_such_script", false},
	} {
		if got := hasTest(t, root, tc.pkg, tc.name, tc.script); got != tc.want {
			t.Errorf("%s/%s in %s: %v, want %v", tc.name, tc.script, tc.pkg, got, tc.want)
		}
	}
}
