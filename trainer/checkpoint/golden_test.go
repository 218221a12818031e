package checkpoint

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/testdata"
)

// eachWeightsFile visits the reference files, all written by the format's own library
// or by independent converters.
func eachWeightsFile(t *testing.T, visit func(path string)) {
	for _, root := range []string{testdata.Shared(t, "golden"), testdata.Shared(t, "data", "models")} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".safetensors" {
				visit(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenReadsEveryReferenceFile(t *testing.T) {
	count := 0
	eachWeightsFile(t, func(path string) {
		f, err := Open(path)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		for _, name := range f.Names() {
			if x, err := f.Tensor(name); err != nil || x.Valid() != nil {
				t.Errorf("%s: tensor %q: %v, %v", path, name, err, x.Valid())
			}
		}
		count += len(f.Names())
	})
	if count == 0 {
		t.Error("the reference files hold no tensor")
	}
}

// A model saved by the format's own library must come out the same, byte for byte.
func TestWriteEqualsTheFormatsOwnWriter(t *testing.T) {
	models, err := filepath.Glob(filepath.Join(testdata.Shared(t, "golden", "models"), "*", "model*.safetensors"))
	if err != nil || len(models) == 0 {
		t.Fatal("no models", err)
	}
	for _, path := range models {
		f := mustOpen(t, path)
		var list []Named
		for _, name := range f.Names() {
			x, _ := f.Tensor(name)
			list = append(list, Named{Name: name, Tensor: x})
		}
		again := filepath.Join(t.TempDir(), "again.safetensors")
		if err := Write(again, list, f.Metadata()); err != nil {
			t.Fatal(err)
		}
		a, errA := os.ReadFile(path)
		b, errB := os.ReadFile(again)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: written again it differs (%v, %v)", path, errA, errB)
		}
	}
}

func TestShardedModelEqualsTheModelItWasRoundedFrom(t *testing.T) {
	whole, err := OpenDir(testdata.Shared(t, "data", "models", "stories260K"))
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	shards, err := OpenDir(testdata.Shared(t, "data", "models", "stories260K-bf16-sharded"))
	if err != nil {
		t.Fatal(err)
	}
	defer shards.Close()
	if len(shards.files) != 3 {
		t.Errorf("%d shards, want 3", len(shards.files))
	}
	for _, name := range whole.Names() {
		want, _ := whole.Tensor(name)
		got, err := shards.Tensor(name)
		if err != nil || !got.Shape.Equal(want.Shape) {
			t.Errorf("%s: shape %v, want %v", name, got.Shape, want.Shape)
			continue
		}
		for i, v := range want.Float32s() {
			if got.Uint16s()[i] != core.Float32ToBFloat16(v) {
				t.Errorf("%s[%d] = %#x, want %g rounded", name, i, got.Uint16s()[i], v)
				break
			}
		}
	}
}

func TestShardedGoldenModelIsWhole(t *testing.T) {
	dir := testdata.Shared(t, "golden", "models", "qwen3-bf16-sharded")
	s, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	total := 0
	for _, name := range s.Names() {
		x, _ := s.Tensor(name)
		total += len(x.Data)
	}
	if total != 132640 { // "total_size" in the folder's index
		t.Errorf("%d bytes of tensors, want 132640", total)
	}
}

// The float32 and float64 goldens hold the same losses: see their README.
func TestGoldenLossesAgreeAcrossDTypes(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(testdata.Shared(t, "golden", "models"), "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatal("no goldens", err)
	}
	for _, dir := range dirs {
		single, errSingle := mustOpen(t, filepath.Join(dir, "golden.safetensors")).Tensor("loss")
		double, errDouble := mustOpen(t, filepath.Join(dir, "golden_f64.safetensors")).Tensor("loss")
		if err := errors.Join(errSingle, errDouble); err != nil {
			t.Error(err)
			continue
		}
		a, b := float64(single.Float32s()[0]), double.Float64s()[0]
		if !(math.Abs(a-b) < 5e-6) || !(b > 0) {
			t.Errorf("%s: loss %g in float32, %g in float64", strings.TrimPrefix(dir, filepath.Dir(dir)), a, b)
		}
	}
}
