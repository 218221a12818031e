package golden

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// file is a recording: tensors by name, and the parameters of each variant.
type file struct {
	*checkpoint.File
	t     testing.TB
	notes struct {
		Variants map[string]struct {
			Params   json.RawMessage
			Rounding map[string]float64 `json:"f32_vs_f64_rel"`
		}
	}
}

// open reads path.safetensors and path.json, until the test ends.
func open(t testing.TB, path string) file {
	t.Helper()
	f, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	f.t = t
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func read(path string) (f file, err error) {
	notes, err := os.ReadFile(path + ".json")
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(notes, &f.notes); err != nil {
		return f, fmt.Errorf("%s.json: %w", path, err)
	}
	f.File, err = checkpoint.Open(path + ".safetensors")
	return f, err
}

func (f file) variants() []string { return slices.Sorted(maps.Keys(f.notes.Variants)) }

// rounding returns how far the published code in float32 is from itself in float64, in
// the worst of a variant's tensors.
func (f file) rounding(variant string) float64 {
	worst := 0.0
	for _, d := range f.notes.Variants[variant].Rounding {
		worst = max(worst, d)
	}
	return worst
}

// variant returns one of the uses that are recorded.
func (f file) variant(name string) opdef.Recording {
	return opdef.Recording{Variant: name,
		Has: func(input string) bool {
			_, _, ok := f.Lookup(name + ".in." + input)
			return ok
		},
		Params: func(into any) {
			if err := json.Unmarshal(f.notes.Variants[name].Params, into); err != nil {
				f.t.Fatal(err)
			}
		},
		Tensor: func(name string) core.Tensor {
			x, err := f.Tensor(name)
			if err != nil {
				f.t.Fatal(err)
			}
			return x
		},
	}
}
