package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

// TestEveryPaceIsMeasured: with a small model of many positions, and another's tokenizer.
func TestEveryPaceIsMeasured(t *testing.T) {
	folder := t.TempDir()
	for _, from := range []string{testdata.Shared(t, "data", "models", "stories260K"),
		testdata.Shared(t, "golden", "models", "qwen3-tied")} {
		if err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(folder, filepath.Base(path)), b, 0o600)
		}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := measure(t.Context(), folder, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if p.Prefill <= 0 || p.Decode <= 0 || p.Together <= 0 || p.Bytes <= 0 || p.Cache <= 0 ||
		p.Bandwidth != p.Decode*float64(p.Bytes+p.Cache) {
		t.Errorf("%+v", p)
	}
}

func TestAModelWithTooFewPositionsIsRefused(t *testing.T) {
	if _, err := measure(t.Context(), testdata.Shared(t, "data", "models", "stories15M"), 1, 1); err == nil {
		t.Error("measured with more tokens than the model has positions")
	}
}
