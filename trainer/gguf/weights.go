package gguf

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
)

// source gives the tensors of a model folder.
type source interface {
	Lookup(name string) (core.DType, core.Shape, bool)
	TensorIn(room *checkpoint.Room, name string) (core.Tensor, error)
}

// layerTensor takes the name of a tensor apart: the layer, the path in it, the expert if it is of one, and the end.
var layerTensor = regexp.MustCompile(`^model\.layers\.(\d+)\.(.+)\.(weight|bias|e_score_correction_bias)$`)

var expert = regexp.MustCompile(`\.experts\.\d+\.`)

// rename returns the name of a tensor in the file. Those of a layer's experts have the same, since
// they make up one tensor there.
func (f family) rename(name string) (string, error) {
	if other, ok := otherNames[name]; ok {
		return other, nil
	}
	m := layerTensor.FindStringSubmatch(name)
	if m == nil {
		return "", fmt.Errorf("tensor %s has no name in GGUF; such a model cannot be exported", name)
	}
	layer, path, end := m[1], expert.ReplaceAllString(m[2], ".experts."), m[3]
	if end == "e_score_correction_bias" {
		return "blk." + layer + ".exp_probs_b.bias", nil
	}
	short, ok := f.names[path]
	if !ok {
		short, ok = layerNames[path]
	}
	if !ok {
		return "", fmt.Errorf("tensor %s has no name in GGUF; such a model cannot be exported", name)
	}
	return "blk." + layer + "." + short + "." + end, nil
}

// matrices adds the tensors of the model, whose numbers come from files; matrices are stored as the
// type says, and vectors and routers as float32, as llama.cpp asks for.
func (f family) matrices(out *file, m *models.Model, files source, as Type) error {
	parts := map[string][]string{} // by the name in the file: the tensors of the folder that make it up
	var names []string
	shapes := map[string][]int{}
	for _, p := range slices.Concat(m.Params(), m.Buffers()) {
		for _, e := range p.Entries {
			name, err := f.rename(e.Name)
			if err != nil {
				return err
			}
			if parts[name] == nil {
				names, shapes[name] = append(names, name), e.Shape
			}
			parts[name] = append(parts[name], e.Name)
		}
	}
	for _, name := range names {
		shape := slices.Clone(shapes[name])
		if strings.Contains(name, "_exps.") {
			shape = slices.Concat([]int{len(parts[name])}, shape)
		}
		for _, part := range parts[name] {
			if err := readable(files, part, shapes[name]); err != nil {
				return err
			}
		}
		t := &tensor{name: name, shape: shape, as: stored(name, shape, as)}
		order := f.order(m, name)
		more := float32(0) // in the file, norms are of all of what multiplies
		if len(shape) == 1 && strings.HasSuffix(name, "norm.weight") {
			more = float32(m.Decoder.Config().NormOffset)
		}
		t.write = func(w io.Writer) error {
			var room checkpoint.Room
			for _, part := range parts[name] {
				v, err := files.TensorIn(&room, part)
				if err == nil && more != 0 {
					v = raised(v, more)
				}
				if err == nil {
					err = write(w, t.as, v, order)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", part, err)
				}
			}
			return nil
		}
		out.tensors = append(out.tensors, t)
	}
	return nil
}

// raised returns a vector with a number added to each element, in float32.
func raised(v core.Tensor, by float32) core.Tensor {
	sum := core.NewTensor(core.Float32, v.Shape...)
	row := sum.Float32s()
	v.Load(row, 0)
	for i := range row {
		row[i] += by
	}
	return sum
}

// readable refuses a tensor that the files do not have, of another shape, or of numbers that are quantised.
func readable(files source, name string, want core.Shape) error {
	dtype, shape, ok := files.Lookup(name)
	switch {
	case !ok:
		return fmt.Errorf("tensor %s is missing from the files", name)
	case dtype == core.Int8:
		return fmt.Errorf("tensor %s is int8: export the model from which tune quantize has made this one, and choose "+
			"the type q8_0", name)
	case dtype != core.Float32 && dtype != core.BFloat16 && dtype != core.Float16:
		return fmt.Errorf("tensor %s is %s; supported: float32, bfloat16, float16", name, dtype)
	case !shape.Equal(want):
		return fmt.Errorf("tensor %s is %v, want %v", name, shape, want)
	}
	return nil
}

// stored returns how a tensor is stored. Rows that are no whole blocks are float16.
func stored(name string, shape []int, as Type) Type {
	switch {
	case len(shape) == 1 || strings.Contains(name, "ffn_gate_inp."):
		return f32
	case shape[len(shape)-1]%as.block != 0:
		return f16
	}
	return as
}

// order returns the row of the folder's tensor that is a row of the file's, nil for the same.
func (f family) order(m *models.Model, name string) func(row int) int {
	a := m.Decoder.Config().Attention
	if !f.pairs || !strings.Contains(name, ".attn_q.") && !strings.Contains(name, ".attn_k.") {
		return nil
	}
	return neighbours(a.HeadDim)
}

// neighbours puts the two rows that rotate together side by side, in each head: row i of the first
// half, and of the second.
func neighbours(headDim int) func(row int) int {
	return func(row int) int {
		head, at := row/headDim*headDim, row%headDim
		return head + at%2*(headDim/2) + at/2
	}
}

// write writes the rows of a tensor, in the order if there is one.
func write(w io.Writer, as Type, v core.Tensor, order func(row int) int) error {
	if i, bad := checkpoint.NonFinite(v); bad {
		return fmt.Errorf("element %d is not finite", i)
	}
	rows, cols := v.Rows(), v.Shape[len(v.Shape)-1]
	if len(v.Shape) == 1 {
		rows, cols = cols, 1
		if order == nil {
			rows, cols = 1, rows
		}
	}
	const numbers = 1 << 20 // at a time
	step := max(1, numbers/cols)
	room := make([]byte, as.size(min(step, rows)*cols))
	for first := 0; first < rows; first += step {
		n := min(step, rows-first)
		beyond := encodeRows(room, as, v, first, n, cols, order)
		if beyond != 0 {
			return fmt.Errorf("%g is more than %s can hold; choose another type, such as bf16", beyond, as)
		}
		if _, err := w.Write(room[:as.size(n*cols)]); err != nil {
			return err
		}
	}
	return nil
}

// encodeRows encodes some rows with all threads, and returns a number that is too large for the type, 0 for none.
func encodeRows(room []byte, as Type, v core.Tensor, first, n, cols int, order func(row int) int) float32 {
	large := make([]float32, n)
	simd.Parallel(n, max(1, 1<<14/cols), func(lo, hi int) {
		row := make([]float32, cols)
		for i := lo; i < hi; i++ {
			from := first + i
			if order != nil {
				from = order(from)
			}
			v.Load(row, from*cols)
			if most := largest(row, true); most > as.most || most < -as.most {
				large[i] = most
			}
			as.encode(room[as.size(i*cols):as.size((i+1)*cols)], row)
		}
	})
	for _, x := range large {
		if x != 0 {
			return x
		}
	}
	return 0
}

// vector adds a tensor of float32.
func (f *file) vector(name string, v []float32) {
	f.tensors = append(f.tensors, &tensor{name: name, shape: []int{len(v)}, as: f32, write: func(w io.Writer) error {
		b := make([]byte, 4*len(v))
		encodeF32(b, v)
		_, err := w.Write(b)
		return err
	}})
}
