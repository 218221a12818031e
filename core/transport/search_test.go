package transport

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

func TestSearchPathOrder(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	t.Setenv("TUNE_PLUGIN_DIR", a+string(os.PathListSeparator)+b)
	got := SearchPath("")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{a, b, filepath.Join(filepath.Dir(exe), "plugins"), filepath.Join(testdata.Root(t), "bin", "plugins")}
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("%v, want %v and the user's folder", got, want)
	}
	if got := SearchPath("only"); !slices.Equal(got, []string{"only"}) {
		t.Errorf("explicit: %v", got)
	}
}

func TestSearchPathOutsideACheckout(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if root, ok := Checkout(dir); ok {
		t.Errorf("another module at %s was taken for ours", root)
	}
}
