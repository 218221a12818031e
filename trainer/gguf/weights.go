package gguf

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// source gives the tensors of a model folder.
type source interface {
	Lookup(name string) (core.DType, core.Shape, bool)
	TensorIn(room *checkpoint.Room, name string) (core.Tensor, error)
}

// layerTensor takes the name of a tensor apart: the layer, the path in it, the expert if it is of one, and the end.
var layerTensor = regexp.MustCompile(`^model\.layers\.(\d+)\.(.+)\.(weight|bias|e_score_correction_bias)$`)

// layerPart takes the name of any tensor of a layer apart: the layer and the path in it.
var layerPart = regexp.MustCompile(`^model\.layers\.(\d+)\.(.+)$`)

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

// part is a tensor of the file or, of an expert's matrix, some of it, and what it is made of: its rows are stretches
// of a tensor of the folder.
type part struct {
	name   string // in the file
	of     string // in the folder
	shape  []int
	turned bool              // rows and columns of the folder's matrices change places first
	cols   int               // in a row; 0 for the last dimension of the shape
	at     func(row int) int // the element at which a row begins; nil where one follows the other
}

// partsOf returns what a tensor of the folder becomes: one part, but for those that the family splits.
func (f family) partsOf(m *models.Model, e nn.Entry) ([]part, error) {
	if at := layerPart.FindStringSubmatch(e.Name); at != nil && f.split != nil {
		if parts := f.split(m, at[2], e.Shape); parts != nil {
			for i := range parts {
				parts[i].name, parts[i].of = "blk."+at[1]+"."+parts[i].name, e.Name
			}
			return parts, nil
		}
	}
	name, err := f.rename(e.Name)
	p := part{name: name, of: e.Name, shape: e.Shape}
	if strings.HasSuffix(name, ".bias") { // ERNIE's correction of scores is a matrix of one row
		p.shape = []int{e.Shape.Elems()}
	}
	if order := f.order(m, name); order != nil {
		p.cols = 1
		if len(p.shape) > 1 {
			p.cols = p.shape[1]
		}
		p.at = func(row int) int { return order(row) * p.cols }
	}
	return []part{p}, err
}

// matrices adds the tensors of the model, whose numbers come from files; matrices are stored as the
// type says, or as they are without one, and vectors and routers as float32, as llama.cpp asks for.
func (f family) matrices(out *file, m *models.Model, files source, as Type) error {
	all := map[string][]part{} // by the name in the file
	var names []string
	for _, p := range slices.Concat(m.Params(), m.Buffers()) {
		for _, e := range p.Entries {
			parts, err := f.partsOf(m, e)
			if err != nil {
				return err
			}
			for _, p := range parts {
				if all[p.name] == nil {
					names = append(names, p.name)
				}
				all[p.name] = append(all[p.name], p)
			}
		}
	}
	for _, name := range names {
		parts := all[name]
		shape := parts[0].shape
		if strings.HasSuffix(name, "_exps.weight") && len(shape) == 2 { // an expert's
			shape = slices.Concat([]int{len(parts)}, shape)
		}
		own := as
		if as.name == "" {
			own = lossless(files, parts)
		}
		t := &tensor{name: name, shape: shape, as: stored(name, shape, own)}
		more := float32(0) // in the file, norms are of all of what multiplies
		if len(shape) == 1 && strings.HasSuffix(name, "norm.weight") {
			more = float32(m.Decoder.Config().NormOffset)
		}
		t.write = func(w io.Writer) error {
			var room checkpoint.Room
			for _, p := range parts {
				v, err := files.TensorIn(&room, p.of)
				if err == nil && more != 0 {
					v = raised(v, more)
				}
				if err == nil {
					err = write(w, t.as, v, p)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", p.of, err)
				}
			}
			return nil
		}
		out.tensors = append(out.tensors, t)
	}
	return nil
}

// lossless returns the type that holds all numbers of a tensor's parts.
func lossless(files source, parts []part) Type {
	first, _, _ := files.Lookup(parts[0].of)
	for _, p := range parts {
		if dtype, _, _ := files.Lookup(p.of); dtype != first { // neither half precision holds the other
			return f32
		}
	}
	return typeOf(first)
}

// usual returns the type of most matrices.
func (f *file) usual() Type {
	count := map[uint32]int{}
	for _, t := range f.tensors {
		if len(t.shape) > 1 {
			count[t.as.id]++
		}
	}
	return slices.MaxFunc(types, func(a, b Type) int { return count[a.id] - count[b.id] })
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

// readable refuses a tensor that the files do not have, of another shape, or of other numbers.
func readable(files source, name string, want core.Shape) error {
	dtype, shape, ok := files.Lookup(name)
	switch {
	case !ok:
		return fmt.Errorf("tensor %s is missing from the files", name)
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
	case len(shape) == 1 || strings.Contains(name, "ffn_gate_inp.") || strings.HasSuffix(name, ".bias"):
		return f32
	case shape[len(shape)-1]%as.block != 0:
		return f16
	}
	return as
}

// order returns the row of the folder's tensor that is a row of the file's, nil for the same.
func (f family) order(m *models.Model, name string) func(row int) int {
	a := m.Decoder.Config().Attention
	if a.Latent != nil {
		return latentOrder(a, name)
	}
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

// write writes the rows of a part, whose numbers are of v.
func write(w io.Writer, as Type, v core.Tensor, p part) error {
	if i, bad := checkpoint.NonFinite(v); bad {
		return fmt.Errorf("element %d is not finite", i)
	}
	if !p.turned {
		return writeRows(w, as, v, p, core.Shape(p.shape).Elems())
	}
	rows, cols := v.Shape[len(v.Shape)-2], v.Shape[len(v.Shape)-1]
	size := rows * cols
	for first := 0; first < v.Elems(); first += size {
		each := core.Shape(p.shape).Elems() / (v.Elems() / size)
		if err := writeRows(w, as, turned(v.Slice(first, first+size, rows, cols)), p, each); err != nil {
			return err
		}
	}
	return nil
}

// turned returns a matrix [R, C] as float32 [C, R].
func turned(v core.Tensor) core.Tensor {
	const most = 64 // columns at a time, whose numbers are written side by side
	rows, cols := v.Shape[0], v.Shape[1]
	t := core.NewTensor(core.Float32, cols, rows)
	simd.Parallel(cols, most, func(lo, hi int) {
		var room [most]float32
		for ; lo < hi; lo += most {
			some := room[:min(most, hi-lo)]
			for r := range rows {
				v.Load(some, r*cols+lo)
				for i, x := range some {
					t.Float32s()[(lo+i)*rows+r] = x
				}
			}
		}
	})
	return t
}

// writeRows writes so many numbers of a part, in rows.
func writeRows(w io.Writer, as Type, v core.Tensor, p part, numbers int) error {
	cols, at := cmp.Or(p.cols, p.shape[len(p.shape)-1]), p.at
	if at == nil {
		at = func(row int) int { return row * cols }
	}
	const most = 1 << 20 // numbers at a time
	rows, step := numbers/cols, max(1, most/cols)
	room := make([]byte, as.size(min(step, rows)*cols))
	for first := 0; first < rows; first += step {
		n := min(step, rows-first)
		beyond := encodeRows(room, as, v, n, cols, func(i int) int { return at(first + i) })
		if beyond != 0 {
			return fmt.Errorf("%g is more than %s can hold; choose another type, such as bf16", beyond, as)
		}
		if _, err := w.Write(room[:as.size(n*cols)]); err != nil {
			return err
		}
	}
	return nil
}

// encodeRows encodes n rows with all threads, and returns a number that is too large for the type, 0 for none.
func encodeRows(room []byte, as Type, v core.Tensor, n, cols int, at func(row int) int) float32 {
	large := make([]float32, n)
	simd.Parallel(n, max(1, 1<<14/cols), func(lo, hi int) {
		row := make([]float32, cols)
		for i := lo; i < hi; i++ {
			v.Load(row, at(i))
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
