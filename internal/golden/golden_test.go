package golden

import (
	"math"
	"os"
	"path/filepath"
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
	for name, data := range map[string]string{
		"short":  "abc",
		"length": "\xff\x00\x00\x00\x00\x00\x00\x00{}",
		"header": "\x02\x00\x00\x00\x00\x00\x00\x00{]",
		"extent": "\x1f\x00\x00\x00\x00\x00\x00\x00" + `{"a":{"data_offsets":[0, 400]}}`,
	} {
		path := filepath.Join(t.TempDir(), name)
		for suffix, b := range map[string]string{".json": "{}", ".safetensors": data} {
			if err := os.WriteFile(path+suffix, []byte(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := read(path); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
