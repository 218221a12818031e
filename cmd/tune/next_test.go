package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
)

// TestAWrongPluginIsNotRecommended for training the model further, which takes the plugins' folder as the run did.
func TestAWrongPluginIsNotRecommended(t *testing.T) {
	c := trainer.Config{Kernels: "shortrope,npu_fused_rmsnorm", Precision: "bf16"}
	for _, wrong := range [][]*core.KernelError{nil, {{Kernel: "shortrope"}}} {
		var b strings.Builder
		a := &app{pluginFlags: " --plugin-dir p"}
		a.printNext(&b, c, &trainer.Summary{Out: "out", Wrong: wrong}, false)
		want := "--kernels shortrope,npu_fused_rmsnorm --plugin-dir p --precision bf16 --model out --data FILE\n"
		if wrong != nil {
			want = "--kernels from:out --plugin-dir p --precision bf16 --model out --data FILE\n"
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("wrong %v:\n%s", wrong, b.String())
		}
	}
}

// TestTheLatestOutputHasCheckpoints if any has: a model that was saved beside its own folder
// leaves its checkpoints there.
func TestTheLatestOutputHasCheckpoints(t *testing.T) {
	for _, tt := range []struct{ folders, want string }{
		{"", "tune-out"},
		{"tune-out tune-out-2", "tune-out-2"},
		{"tune-out/checkpoint-2 tune-out-2", "tune-out"},
		{"tune-out/checkpoint-2 tune-out-2/checkpoint-1 tune-out-3", "tune-out-2"},
	} {
		dir := t.TempDir()
		for _, f := range strings.Fields(tt.folders) {
			if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(f)), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if got := latestOut(filepath.Join(dir, "tune-out")); got != filepath.Join(dir, tt.want) {
			t.Errorf("of %q: %s, want %s", tt.folders, got, tt.want)
		}
	}
}
