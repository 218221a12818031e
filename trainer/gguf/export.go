package gguf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
)

// Options say what is written.
type Options struct {
	Model string // the folder
	Type  string // of the matrices; empty for each as it is in the folder, so that nothing is lost
	Out   string // the file, which must not exist
}

// Result is what has been written.
type Result struct {
	Arch    string // what llama.cpp calls the architecture
	Type    string // of most matrices
	Tensors int
	Bytes   int
	Float16 []string // matrices whose rows are no whole blocks, and which are float16 therefore
	Notes   []string // what llama.cpp does otherwise and what to do about it
}

// Export writes a model. The file appears under its name only when it is complete; when ctx ends, nothing is left of
// it. A model that llama.cpp would compute otherwise is an error. mem holds what a model of its shape takes, and no
// weights.
func Export(ctx context.Context, o Options, mem core.Memory) (*Result, error) {
	if err := checkpoint.Vacant(o.Out); err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	if err := models.Verify(o.Model, ""); err != nil {
		return nil, err
	}
	m, err := models.Shape(o.Model, mem, models.LoadOptions{Frozen: true})
	if err != nil {
		return nil, err
	}
	defer m.Free()
	if m.Quantised != "" {
		return nil, fmt.Errorf("gguf: %s is quantised (quant_method %s): export the model that it was made from, with any "+
			"adapter merged into that, and choose the type q8_0 or q4_0", o.Model, m.Quantised)
	}
	set, err := checkpoint.OpenDir(o.Model)
	if err != nil {
		return nil, err
	}
	var r *Result
	if err = m.Fits(set); err == nil {
		r, err = export(ctx, o, m, set)
	}
	if err = errors.Join(err, set.Close()); err != nil {
		return nil, fmt.Errorf("gguf: %s: %w", o.Model, err)
	}
	return r, nil
}

func export(ctx context.Context, o Options, m *models.Model, set *checkpoint.Set) (*Result, error) {
	f, err := familyOf(m)
	if err == nil {
		err = groups(m, set)
	}
	if err != nil {
		return nil, err
	}
	var as Type
	if o.Type != "" {
		if as, err = ParseType(o.Type); err != nil {
			return nil, err
		}
	}
	out := new(file)
	if err := f.matrices(out, m, set, as); err != nil {
		return nil, err
	}
	if o.Type == "" {
		as = out.usual()
	}
	r := &Result{Arch: f.arch, Type: as.name}
	out.set("general.architecture", f.arch)
	out.set("general.type", "model")
	out.set("general.name", nameOf(o.Model))
	out.set("general.file_type", as.file)
	if as.block > 1 {
		out.set("general.quantization_version", uint32(2))
	}
	var raw struct {
		Positions int `json:"max_position_embeddings"` // longrope lowers that of m.Config
	}
	if err := json.Unmarshal(m.RawConfig, &raw); err != nil {
		return nil, err
	}
	positions, windowed := f.context(m, max(raw.Positions, m.Config.MaxPositionEmbeddings))
	if windowed {
		r.Notes = append(r.Notes, fmt.Sprintf("the file says that texts have at most %d tokens: llama.cpp has no "+
			"sliding window here", positions))
	}
	if f.note != "" {
		r.Notes = append(r.Notes, f.note)
	}
	f.hyper(out, m, positions)
	if err := f.rope(out, m.Config, m.Decoder.Config()); err != nil {
		return nil, err
	}
	notes, err := vocabulary(out, o.Model, "", m.Decoder.Config().Vocab)
	if err != nil {
		return nil, err
	}
	r.Notes = append(r.Notes, notes...)
	for _, t := range out.tensors {
		if len(t.shape) > 1 && as.block > 1 && t.as.id == f16.id {
			r.Float16 = append(r.Float16, t.name)
		}
	}
	r.Tensors = len(out.tensors)
	r.Bytes, err = save(ctx, o.Out, out)
	return r, err
}

// save writes the file, if there is room for it.
func save(ctx context.Context, path string, out *file) (int, error) {
	size, err := out.bytes()
	if err != nil {
		return 0, err
	}
	if free, known := checkpoint.Free(path); known && free < uint64(size) {
		return 0, fmt.Errorf("%s takes %s, and there are %s free", path, amount.Bytes(int64(size)),
			amount.Bytes(int64(free)))
	}
	return size, checkpoint.WriteNew(path, 0o644, func(w io.Writer) error { return out.writeTo(ctx, w) })
}

// nameOf is what programs show of the model.
func nameOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return strings.TrimSpace(filepath.Base(dir))
}
