package parity_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/internal/golden"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// phi3 returns the folder of the reference model llama-tiny with its weights, and the
// gradients that it is compared with, repacked as phi3 has them.
func phi3(t *testing.T) string {
	t.Helper()
	from, dir := testdata.Shared(t, "golden", "models", "llama-tiny"), filepath.Join(t.TempDir(), "llama-tiny-as-phi3")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{checkpoint.SingleFile, "golden.safetensors", "golden_f64.safetensors"} {
		repack(t, filepath.Join(from, name), filepath.Join(dir, name))
	}
	text, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	maps.Copy(config, map[string]any{"model_type": "phi3", "pad_token_id": nil})
	if text, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

func repack(t *testing.T, from, to string) {
	t.Helper()
	f, err := checkpoint.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tensors []checkpoint.Named
	for _, name := range f.Names() {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, checkpoint.Named{Name: name, Tensor: x})
	}
	packed := golden.Packed(tensors)
	if slices.EqualFunc(packed, tensors, func(a, b checkpoint.Named) bool { return a.Name == b.Name }) {
		t.Fatalf("%s has nothing to pack", from)
	}
	if err := os.Remove(to); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(to, packed, nil); err != nil {
		t.Fatal(err)
	}
}
