package models

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/nn"
)

// Load reads a model folder: config.json and model.safetensors, or its shards. Every
// tensor of the files must be used and every parameter must be found, with the shape
// that the configuration gives it.
func Load(dir string, mem core.Memory) (*Model, error) {
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("models: %s has no config.json; it must be a Hugging Face model folder", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	build, err := route(config)
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", dir, err)
	}
	set, err := checkpoint.OpenDir(dir)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	defer set.Close()
	m, err := construct(build, config, newAllowance(mem, set))
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", dir, err)
	}
	if err := m.fill(set); err != nil {
		m.Free()
		return nil, fmt.Errorf("models: %s: %w", dir, err)
	}
	return m, nil
}

func (m *Model) fill(set *checkpoint.Set) error {
	var missing, wrong []string
	unused := map[string]bool{}
	for _, name := range set.Names() {
		unused[name] = !m.ignored(name)
	}
	for _, p := range slices.Concat(m.Params(), m.Buffers()) {
		for _, e := range p.Entries {
			t, ok := set.Tensor(e.Name)
			if !ok {
				missing = append(missing, e.Name)
				continue
			}
			unused[e.Name] = false
			if err := widen(e, p.Tensor, t); err != nil {
				wrong = append(wrong, err.Error())
			}
			m.stored[e.Name] = t.DType
		}
	}
	var extra []string
	for name, is := range unused {
		if is {
			extra = append(extra, name)
		}
	}
	slices.Sort(extra)
	return errors.Join(
		list("tensors are missing from the files", missing),
		list("tensors of the files have no place in this model", extra),
		list("tensors do not fit the configuration", wrong))
}

// ignored are tensors that files may hold and that carry nothing: a copy of the tied
// head, the rotary frequencies that old files stored, and layers after the last.
func (m *Model) ignored(name string) bool {
	if rest, ok := strings.CutPrefix(name, "model.layers."); ok {
		number, _, _ := strings.Cut(rest, ".")
		if i, err := strconv.Atoi(number); err == nil && i >= m.Config.NumHiddenLayers && i-m.Config.NumHiddenLayers < m.Config.ExtraLayers {
			return true
		}
	}
	return m.Config.TieWordEmbeddings && name == "lm_head.weight" || strings.HasSuffix(name, ".rotary_emb.inv_freq")
}

func widen(e nn.Entry, param, stored core.Tensor) error {
	if !stored.Shape.Equal(e.Shape) {
		return fmt.Errorf("%s is %v, want %v", e.Name, stored.Shape, e.Shape)
	}
	switch stored.DType {
	case core.Float32, core.BFloat16, core.Float16:
		stored.Load(e.View(param).Float32s(), 0)
		return nil
	}
	return fmt.Errorf("%s is %s; supported: float32, bfloat16, float16", e.Name, stored.DType)
}

// list returns an error with the first few names, nil for none.
func list(what string, names []string) error {
	const most = 8
	if len(names) == 0 {
		return nil
	}
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return fmt.Errorf("%d %s: %s", len(names), what, text)
}

// Named returns the tensors as files keep them: original names, and original dtypes for
// a model that was loaded. The tensors of half precision are copies. A value that is not
// finite, or that its dtype cannot hold, is an error that names the tensor.
func (m *Model) Named() ([]checkpoint.Named, error) {
	var out []checkpoint.Named
	for _, p := range slices.Concat(m.Params(), m.Buffers()) {
		for _, e := range p.Entries {
			t := e.View(p.Tensor)
			largest := largest(t.Float32s())
			if !(largest <= math.MaxFloat32) {
				return nil, fmt.Errorf("%s has values that are not finite: the training diverged; lower the learning rate", e.Name)
			}
			if d := m.stored[e.Name]; d != core.InvalidDType && d != core.Float32 {
				if d == core.Float16 && largest >= float16Limit {
					return nil, fmt.Errorf("%s has grown to %g, which its float16 cannot hold: lower the learning rate, or start from float32 or bfloat16 files", e.Name, largest)
				}
				narrow := core.NewTensor(d, e.Shape...)
				narrow.Store(t.Float32s(), 0)
				t = narrow
			}
			out = append(out, checkpoint.Named{Name: e.Name, Tensor: t})
		}
	}
	return out, nil
}

// float16Limit is the least magnitude that rounds to infinity.
const float16Limit = 65520

// largest returns the largest magnitude; NaN if there is one.
func largest(v []float32) float32 {
	var m float32
	for _, x := range v {
		if x = float32(math.Abs(float64(x))); !(x <= m) {
			if m = x; x != x {
				return x
			}
		}
	}
	return m
}
