package gguf

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// ExportAdapter writes the LoRA adapter of a folder for the model of o.Model, whose own file is written
// by Export; o.Type is f32, the default, or f16. mem holds what a model of this shape takes, and the adapter.
func ExportAdapter(ctx context.Context, o Options, adapter string, mem core.Memory) (*Result, error) {
	if err := checkpoint.Vacant(o.Out); err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	as, err := f32, error(nil)
	if o.Type != "" {
		as, err = ParseType(o.Type)
	}
	if err != nil {
		return nil, err
	}
	if as.id != f32.id && as.id != f16.id {
		return nil, fmt.Errorf("gguf: an adapter is %s or %s, not %s: it is small", f32, f16, as)
	}
	if err := models.Verify(o.Model, adapter); err != nil {
		return nil, err
	}
	m, err := models.Shape(o.Model, mem, models.LoadOptions{LoRA: lora.Config{Adapter: adapter}})
	if err != nil {
		return nil, err
	}
	defer m.Free()
	if err := groupsOf(o.Model, m); err != nil { // the model that it is for
		return nil, fmt.Errorf("gguf: %s: %w", o.Model, err)
	}
	r, err := exportAdapter(ctx, o, adapter, m, as)
	if err != nil {
		return nil, fmt.Errorf("gguf: %s: %w", adapter, err)
	}
	return r, nil
}

func exportAdapter(ctx context.Context, o Options, adapter string, m *models.Model, as Type) (*Result, error) {
	f, err := familyOf(m)
	if err != nil {
		return nil, err
	}
	named, err := m.Adapter.Named()
	if err != nil {
		return nil, err
	}
	out, r := new(file), &Result{Arch: f.arch, Type: as.name}
	alpha, err := m.Adapter.Alpha() // which the reader divides by the rank
	if err != nil {
		return nil, fmt.Errorf("%w, of which GGUF has one; merge it with tune merge, and export the model", err)
	}
	out.set("general.architecture", f.arch)
	out.set("general.type", "adapter")
	out.set("general.name", nameOf(adapter))
	out.set("general.file_type", as.file)
	out.set("adapter.type", "lora")
	out.set("adapter.lora.alpha", float32(alpha))
	for _, n := range named {
		t, err := f.adapted(m, n, as)
		if err != nil {
			return nil, err
		}
		out.tensors = append(out.tensors, t)
	}
	own, ownTools, err := chat.Text(o.Model, adapter)
	base, baseTools, _ := chat.Text(o.Model, "")
	if err == nil && (own != base || ownTools != baseTools) {
		r.Notes = append(r.Notes, "the adapter was trained with a chat template that the model's file does not have: "+
			"give llama.cpp --chat-template-file")
	}
	r.Tensors = len(out.tensors)
	r.Bytes, err = save(ctx, o.Out, out)
	return r, err
}

// adapted returns a matrix of the adapter, whose rows go the way of the weight's where they are its output.
func (f family) adapted(m *models.Model, n checkpoint.Named, as Type) (*tensor, error) {
	name := strings.TrimPrefix(n.Name, "base_model.model.")
	module, a := strings.CutSuffix(name, ".lora_A.weight")
	end := ".lora_a"
	if !a {
		var b bool
		if module, b = strings.CutSuffix(name, ".lora_B.weight"); !b {
			return nil, fmt.Errorf("tensor %s is no matrix of a plain LoRA adapter; merge it with tune merge, and export the "+
				"model", n.Name)
		}
		end = ".lora_b"
	}
	if expert.MatchString(module + ".") {
		return nil, fmt.Errorf("tensor %s is of a single expert, which GGUF has no adapters for; merge it with tune "+
			"merge, and export the model", n.Name)
	}
	if layer := module[strings.LastIndexByte(module, '.')+1:]; slices.Contains(f.unadapted, layer) {
		return nil, fmt.Errorf("tensor %s: llama.cpp's %s ignores adapters of %s; merge it with tune merge, and export the "+
			"model", n.Name, f.arch, layer)
	}
	name, err := f.rename(module + ".weight")
	if err != nil {
		return nil, err
	}
	p := part{shape: n.Tensor.Shape}
	if order := f.order(m, name); order != nil && !a {
		p.at = func(row int) int { return order(row) * p.shape[1] }
	}
	return &tensor{name: name + end, shape: p.shape, as: as, write: func(w io.Writer) error {
		return write(w, as, n.Tensor, p)
	}}, nil
}
