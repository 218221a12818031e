package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

// TestAddingAnOp does what docs/adding-an-op.md says: its diff adds two files and two names
// to lists, and then the tests find the op by themselves, and pass.
func TestAddingAnOp(t *testing.T) {
	root, added := testdata.Root(t), t.TempDir()
	replace := map[string]string{}
	for _, name := range []string{"core/op.go", "core/op_linear.go", "internal/ops/ops.go", "internal/ops/linear.go"} {
		name = filepath.FromSlash(name)
		replace[filepath.Join(root, name)] = filepath.Join(added, name)
		if text, err := os.ReadFile(filepath.Join(root, name)); err == nil {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(added, name)), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(added, name), text, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	page, err := os.ReadFile("adding-an-op.md")
	if err != nil {
		t.Fatal(err)
	}
	_, diff, _ := strings.Cut(string(page), "```diff\n")
	diff, _, _ = strings.Cut(diff, "```\n")
	git := exec.CommandContext(t.Context(), "git", "apply", "-")
	git.Dir, git.Stdin = added, strings.NewReader(diff)
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(added))
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v\n%s", err, out)
	}
	files := 0
	if err := filepath.WalkDir(added, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files++
		}
		return err
	}); err != nil || files != len(replace) {
		t.Fatalf("the diff makes %d files, want %d; %v", files, len(replace), err)
	}
	out := testsWith(t, root, replace, "TestCheck|TestWork|TestValidFacts|TestReferencesPass/linear$|TestReferenceGradients|TestEveryOp",
		"./core", "./core/kerneltest", "./internal/ops")
	for _, want := range []string{"TestCheckNoticesEveryWrongTensor/linear_backward", "TestReferencesPass/linear", "TestEveryOpSaysAllThatEveryOpHas/linear"} {
		if !strings.Contains(out, "--- PASS: "+want+" ") {
			t.Errorf("%s does not pass, or does not find the op", want)
		}
	}
}
