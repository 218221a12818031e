package transport

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSearchPathOrder(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	separator := string(os.PathListSeparator)
	t.Setenv("TUNE_PLUGIN_DIR", separator+a+separator+separator+b+separator)
	got := SearchPath("")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{a, b, filepath.Join(filepath.Dir(exe), "plugins")}
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("%v, want %v and the user's folder", got, want)
	}
	if got := SearchPath("only"); !slices.Equal(got, []string{"only"}) {
		t.Errorf("explicit: %v", got)
	}
}
