package golden

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDistanceIsRelativeToTheLargestElement(t *testing.T) {
	for _, c := range []struct {
		got, want []float64
		d         float64
	}{
		{[]float64{1, 3}, []float64{1, 4}, 0.25},
		{[]float64{0, 0}, []float64{0, 0}, 0},
		{[]float64{1}, []float64{0}, math.Inf(1)},
	} {
		if d := Distance(c.got, c.want); d != c.d {
			t.Errorf("Distance(%v, %v) = %v, want %v", c.got, c.want, d, c.d)
		}
	}
	if d := Distance([]float64{1}, nil); !math.IsNaN(d) {
		t.Errorf("different lengths: %v, want NaN", d)
	}
}

func TestReadRefusesDamagedFiles(t *testing.T) {
	const empty = "\x02\x00\x00\x00\x00\x00\x00\x00{}"
	for name, tt := range map[string]struct {
		notes, tensors, want string
	}{
		"notes":   {"{", empty, "notes.json"},
		"tensors": {"{}", empty[:9], "tensors.safetensors"},
	} {
		path := filepath.Join(t.TempDir(), name)
		for suffix, text := range map[string]string{".json": tt.notes, ".safetensors": tt.tensors} {
			if err := os.WriteFile(path+suffix, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := read(path); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("damaged %s: error %v does not name the file", name, err)
		}
	}
}
