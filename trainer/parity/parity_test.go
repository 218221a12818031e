package parity_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/parity"
)

// cases are the reference models of the supported families.
var cases = []string{"llama-packed", "llama-tiny", "llama3-rope-scaling", "qwen3-bf16-sharded", "qwen3-moe", "qwen3-tied", "qwen3-yarn"}

func TestPlainForwardEqualsTheReference(t *testing.T) {
	for _, name := range cases {
		t.Run(name, func(t *testing.T) {
			dir := testdata.Shared(t, filepath.Join("golden", "models", name))
			r, err := parity.Run(context.Background(), dir, parity.Options{Memory: autograd.Heap{}})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Failures {
				t.Error(f)
			}
			t.Logf("%+v", *r)
		})
	}
}
