package models_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/models"
)

// TestNarrowModelsSaySo: who reads the saved folder by what config.json says gets what was trained.
func TestNarrowModelsSaySo(t *testing.T) {
	for _, name := range []string{"torch_dtype", "dtype"} {
		dir := stored(t, "llama", core.Float32)
		path := filepath.Join(dir, "config.json")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		with := func(dtype string) string { return strings.Replace(string(text), "{", `{"`+name+`": "`+dtype+`", `, 1) }
		if err := os.WriteFile(path, []byte(with("float32")), 0o644); err != nil {
			t.Fatal(err)
		}
		for narrow, want := range map[bool]string{false: with("float32"), true: with("bfloat16")} {
			s, err := loadWith(t, dir, models.LoadOptions{Narrow: narrow}).Saved()
			if err != nil || string(s.Config) != want {
				t.Errorf("narrow %v: config.json is saved as\n%s\n%v, want\n%s", narrow, s.Config, err, want)
			}
		}
	}
}

// TestAModelWithoutFilesIsStoredAsItsConfigurationSays, by either name.
func TestAModelWithoutFilesIsStoredAsItsConfigurationSays(t *testing.T) {
	for name, dtype := range map[string]core.DType{"torch_dtype": core.BFloat16, "dtype": core.BFloat16, "other": core.Float32} {
		m, err := models.NewWith(family("llama", with(name, "bfloat16")), autograd.Heap{}, models.LoadOptions{Frozen: true})
		if err != nil {
			t.Fatal(err)
		}
		if p := m.Params()[0]; p.Tensor.DType != dtype {
			t.Errorf("%s: %s is %s, want %s", name, p.Name, p.Tensor.DType, dtype)
		}
	}
}
