package golden

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// EightBits returns a folder with the model of another as bitsandbytes saves it with attention in 8 bits: a weight is
// int8, and 127 stands for the largest magnitude of its row, which is in the tensor SCB.
func EightBits(t testing.TB, dir string) string {
	t.Helper()
	set, err := checkpoint.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	var tensors []checkpoint.Named
	for _, name := range set.Names() {
		w, err := set.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if layer, is := strings.CutSuffix(name, "_proj.weight"); is && strings.Contains(name, ".self_attn.") {
			var largest core.Tensor
			w, largest = eightBits(w)
			tensors = append(tensors, checkpoint.Named{Name: layer + "_proj.SCB", Tensor: largest},
				checkpoint.Named{Name: layer + "_proj.weight_format", Tensor: core.NewTensor(core.Int8, 1), Unsigned: true})
		}
		tensors = append(tensors, checkpoint.Named{Name: name, Tensor: w})
	}
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	config = []byte(strings.Replace(string(config), "{",
		`{"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": true},`, 1))
	if err := os.WriteFile(filepath.Join(out, "config.json"), config, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(filepath.Join(out, checkpoint.SingleFile), tensors, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

// eightBits returns a matrix [N, K] as int8, and the largest magnitude of each row [N].
func eightBits(w core.Tensor) (q, largest core.Tensor) {
	rows, cols := w.Shape[0], w.Shape[1]
	q, largest = core.NewTensor(core.Int8, rows, cols), core.NewTensor(core.Float32, rows)
	row := make([]float32, cols)
	for r := range rows {
		w.Load(row, r*cols)
		most := math.SmallestNonzeroFloat32 // of a row of zeros, which stay zeros
		for _, v := range row {
			most = max(most, math.Abs(float64(v)))
		}
		largest.Float32s()[r] = float32(most)
		for i, v := range row {
			q.Int8s()[r*cols+i] = int8(math.RoundToEven(127 * float64(v) / most))
		}
	}
	return q, largest
}
