package main

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
)

// TestAWrongPluginIsNotRecommended for training the model further.
func TestAWrongPluginIsNotRecommended(t *testing.T) {
	c := trainer.Config{Kernels: "shortrope,npu_fused_rmsnorm"}
	for _, wrong := range [][]*core.KernelError{nil, {{Kernel: "shortrope"}}} {
		var b strings.Builder
		printNext(&b, c, &trainer.Summary{Out: "out", Wrong: wrong}, false)
		want := "--kernels shortrope,npu_fused_rmsnorm --model out --data FILE\n"
		if wrong != nil {
			want = "--kernels from:out --model out --data FILE\n"
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("wrong %v:\n%s", wrong, b.String())
		}
	}
}
