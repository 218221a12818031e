package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

// TestAddingAFamily does what docs/adding-a-family.md says, in a tree that does not have
// the family: its diff adds one file, and then the tests find the family by themselves.
func TestAddingAFamily(t *testing.T) {
	const file = "trainer/models/phi3.go"
	root := testdata.Root(t)
	want, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	diff := diffOfThePage(t, file, string(want))
	if *updateFamilies {
		return // go generate compares nothing
	}
	added := t.TempDir()
	git := exec.CommandContext(t.Context(), "git", "apply", "--verbose", "-")
	git.Dir, git.Stdin = added, strings.NewReader(diff)
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(added))
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v\n%s", err, out)
	}
	var files []string
	err = filepath.WalkDir(added, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 || !strings.HasSuffix(filepath.ToSlash(files[0]), file) {
		t.Fatalf("the diff makes %q, want %s alone", files, file)
	}
	place := filepath.Join(root, filepath.FromSlash(file))
	if found := familyTests(t, root, map[string]string{place: ""}, "phi3"); len(found) > 0 {
		t.Errorf("tests that find phi3 in a tree without it: %q", found)
	}
	found := familyTests(t, root, map[string]string{place: files[0]}, "phi3")
	if len(found) < 6 {
		t.Errorf("only these tests find the family: %q", found)
	}
}

// diffOfThePage returns the diff, which must be that of the file as it is.
func diffOfThePage(t *testing.T, file, text string) string {
	t.Helper()
	diff := fmt.Sprintf("diff --git a/%s b/%[1]s\nnew file mode 100644\n--- /dev/null\n+++ b/%[1]s\n@@ -0,0 +1,%d @@\n",
		file, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		diff += "+" + line
	}
	page, err := os.ReadFile("adding-a-family.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), "```diff\n")
	old, after, ok2 := strings.Cut(rest, "```\n")
	switch {
	case !ok || !ok2:
		t.Fatal("adding-a-family.md has no diff")
	case old != diff && !*updateFamilies:
		t.Fatalf("the diff of adding-a-family.md does not make %s as it is; run go generate ./docs", file)
	case old != diff:
		if err := os.WriteFile("adding-a-family.md", []byte(before+"```diff\n"+diff+"```\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return diff
}

// testsWith runs tests of some packages in a tree where some files are replaced, or absent,
// and returns what they print. Vet is off because it enters folders, which an overlay does not make.
func testsWith(t *testing.T, root string, replace map[string]string, run string, packages ...string) string {
	t.Helper()
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(path, overlay, 0o666); err != nil {
		t.Fatal(err)
	}
	args := []string{"test", "-vet=off", "-ldflags=-w", "-overlay", path, "-v", "-run", run}
	cmd := exec.CommandContext(t.Context(), "go", append(args, packages...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// familyTests returns those tests of trainer/models that go through all families and have a
// subtest for this one, which is all that it runs of them.
func familyTests(t *testing.T, root string, replace map[string]string, family string) (found []string) {
	t.Helper()
	const all = "TestSavedModelLoadsAgain|TestSitesDeclareTheirFacts|TestAllPatchesEverySite|TestPatchedModelTrainsLikeThePlainOne|" +
		"TestEveryParameterOfAPatchedModelGetsAGradient|TestRestoreGivesTheSameBitsAsNeverApplying"
	out := testsWith(t, root, replace, "("+all+")/^"+family+"$", "./trainer/models")
	for _, m := range regexp.MustCompile(`(?m)^ +--- PASS: (\w+)(/\S+)`).FindAllStringSubmatch(out, -1) {
		if m[2] == "/"+family {
			found = append(found, m[1])
		}
	}
	return found
}
