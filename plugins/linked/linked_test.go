package linked_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/plugins/linked"
)

// TestEveryPluginHasItsKernelLinked: a plugin that is added is added here too, but for one that loads what others made.
func TestEveryPluginHasItsKernelLinked(t *testing.T) {
	mains, err := filepath.Glob(filepath.Join(testdata.Root(t), "plugins", "npu_*", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, m := range mains {
		want = append(want, filepath.Base(filepath.Dir(m)))
	}
	for _, k := range linked.Kernels() {
		got = append(got, k.Info().Name)
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("linked kernels of %v, the plugins are %v", got, want)
	}
}
