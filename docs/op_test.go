package docs_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/testdata"
)

// TestAddingAnOp does what docs/adding-an-op.md says: its diff adds a folder and nothing else,
// the lists are generated, and then the tests find the op by themselves, and pass.
func TestAddingAnOp(t *testing.T) {
	const folder = "internal/ops/squared_relu"
	root, tree := testdata.Root(t), t.TempDir()
	page, err := os.ReadFile("adding-an-op.md")
	if err != nil {
		t.Fatal(err)
	}
	_, diff, _ := strings.Cut(string(page), "```diff\n")
	diff, _, _ = strings.Cut(diff, "```\n")
	inTree(t, tree, diff, "git", "apply", "-")
	want := []string{folder + "/contract.go", folder + "/squared_relu.go"}
	if added := filesOf(t, tree); !slices.Equal(added, want) {
		t.Fatalf("the diff makes %q, want %q", added, want)
	}

	// What the generator reads lies beside the folder; what it writes takes the place of the tree's.
	contracts, err := filepath.Glob(filepath.Join(root, "internal", "ops", "*", "contract.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(contracts, filepath.Join(root, "internal", "ops", "generate.go")) {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		copied(t, path, filepath.Join(tree, name))
	}
	if err := os.Mkdir(filepath.Join(tree, "core"), 0o777); err != nil {
		t.Fatal(err)
	}
	inTree(t, filepath.Join(tree, "internal", "ops"), "", "go", "run", "generate.go")
	replace := map[string]string{}
	for _, name := range append(want, "core/contracts.go", "internal/ops/list.go") {
		name = filepath.FromSlash(name)
		replace[filepath.Join(root, name)] = filepath.Join(tree, name)
	}
	const run = "TestCheck|TestWork|TestValidFacts|TestReferencesPass/squared_relu$|TestReferenceGradients/squared_relu$|" +
		"TestEveryOp"
	out := testsWith(t, root, replace, run, "./core", "./core/kerneltest", "./internal/ops")
	for _, want := range []string{"TestCheckNoticesEveryWrongTensor/squared_relu_backward", "TestReferencesPass/squared_relu",
		"TestReferenceGradientsAgreeWithDifferences/squared_relu",
		"TestEveryOpSaysAllThatEveryOpHas/squared_relu"} {
		if !strings.Contains(out, "--- PASS: "+want+" ") {
			t.Errorf("%s does not pass, or does not find the op", want)
		}
	}
}

// TestEveryOpHasItsSection in the page that kernels are written by.
func TestEveryOpHasItsSection(t *testing.T) {
	page, err := os.ReadFile("ops.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range core.Ops() {
		if !strings.Contains(string(page), "\n## "+string(op)+"\n") {
			t.Errorf("ops.md has no section %s", op)
		}
	}
}

// inTree runs a command in a folder that is in no repository, and in no module.
func inTree(t *testing.T, dir, stdin, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// filesOf returns the files below a folder.
func filesOf(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func copied(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o777)
	}
	if err == nil {
		err = os.WriteFile(to, text, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}
