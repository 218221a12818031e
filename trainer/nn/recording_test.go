package nn

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// recording is one use of a module as the models' published code computed it, in
// float32 and in float64.
type recording struct {
	t       *testing.T
	file    *checkpoint.File
	variant string
	params  json.RawMessage
	rel     map[string]float64 // distance of their float32 from their float64
}

// recorded runs test on every variant in a file of recordings.
func recorded(t *testing.T, op string, test func(t *testing.T, r recording)) {
	base := filepath.Join(testdata.Shared(t, "golden", "ops"), op)
	text, err := os.ReadFile(base + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Variants map[string]struct {
			Params json.RawMessage    `json:"params"`
			Rel    map[string]float64 `json:"f32_vs_f64_rel"`
		} `json:"variants"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	f, err := checkpoint.Open(base + ".safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, v := range index.Variants {
		t.Run(name, func(t *testing.T) { test(t, recording{t, f, name, v.Params, v.Rel}) })
	}
}

func (r recording) tensor(name string) core.Tensor {
	r.t.Helper()
	x, err := r.file.Tensor(r.variant + "." + name)
	if err != nil {
		r.t.Fatal(err)
	}
	return x
}

// in returns an input as a trainable leaf of the given shape, or its own.
func (r recording) in(c *Context, name string, shape ...int) *autograd.Value {
	x := r.tensor("in." + name)
	if shape == nil {
		shape = x.Shape
	}
	return param(c, name, slices.Clone(x.Float32s()), shape...)
}

// ints returns an input of integers.
func (r recording) ints(name string) []int32 {
	var out []int32
	for _, v := range r.tensor(name).Int64s() {
		out = append(out, int32(v))
	}
	return out
}

// near compares with the recording in float64. Another order of the same sums may be a
// few times less lucky than their float32 was.
func (r recording) near(name string, got []float32) {
	r.t.Helper()
	r.nearTo(name, got, r.tensor("f64."+name).Float64s())
}

func (r recording) nearTo(name string, got []float32, want []float64) {
	r.t.Helper()
	near(r.t, name, got, want, 4*(r.rel[name]+0x1p-23))
}

// read decodes the variant's parameters.
func (r recording) read(into any) {
	r.t.Helper()
	if err := json.Unmarshal(r.params, into); err != nil {
		r.t.Fatal(err)
	}
}

// swapped exchanges the two middle axes of x [b, m, n, d].
func swapped[E any](x []E, b, m, n, d int) []E {
	out := make([]E, 0, len(x))
	for i := range b {
		for k := range n {
			for j := range m {
				at := ((i*m+j)*n + k) * d
				out = append(out, x[at:at+d]...)
			}
		}
	}
	return out
}
