package models

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// usualWeights refuses a configuration that names other files for the weights than those that are read here.
func usualWeights(config []byte) error {
	var c struct {
		Weights string `json:"transformers_weights"`
	}
	err := hf.Decode(config, &c)
	if err == nil && c.Weights != "" && c.Weights != checkpoint.SingleFile && c.Weights != checkpoint.IndexFile {
		err = fmt.Errorf("config.json: transformers_weights %q is not supported; supported: %s, %s: give the file that name, and "+
			"leave the field out", c.Weights, checkpoint.SingleFile, checkpoint.IndexFile)
	}
	return err
}

// Fits compares what files are said to hold with the model, for one of Shape that is not quantised: an error is one that
// LoadWith would return.
func (m *Model) Fits(set *checkpoint.Set) error {
	var missing, wrong []string
	unused := m.unused(set)
	for _, p := range slices.Concat(m.Params(), m.Buffers()) {
		for _, e := range p.Entries {
			dtype, shape, ok := set.Lookup(e.Name)
			delete(unused, e.Name)
			if !ok {
				missing = append(missing, e.Name)
			} else if err := readable(e, dtype, shape); err != nil {
				wrong = append(wrong, err.Error())
			}
		}
	}
	return errors.Join(m.checkTied(set), misfits(missing, unused, wrong))
}

// unused are the tensors of files that the model is to have a place for.
func (m *Model) unused(set *checkpoint.Set) map[string]bool {
	names := map[string]bool{}
	for _, name := range set.Names() {
		if !m.ignored(name) {
			names[name] = true
		}
	}
	return names
}

const headWeight = "lm_head.weight"

func misfits(missing []string, unused map[string]bool, wrong []string) error {
	absent := list("tensor is", "tensors are", "missing from the files", missing)
	if slices.Equal(missing, []string{headWeight}) {
		absent = fmt.Errorf("%w; a model that uses its embedding for it has tie_word_embeddings in config.json, which is true", absent)
	}
	return errors.Join(absent,
		list("tensor of the files has", "tensors of the files have", "no place in this model", slices.Sorted(maps.Keys(unused))),
		list("tensor does", "tensors do", "not fit the configuration", wrong))
}

// ignored are tensors that files may hold and that carry nothing: a copy of the tied
// head, the rotary frequencies that old files stored, and layers after the last.
func (m *Model) ignored(name string) bool {
	if i, ok := layerOf(name); ok && i >= m.Config.NumHiddenLayers && i-m.Config.NumHiddenLayers < m.Config.ExtraLayers {
		return true
	}
	if extra := m.Config.ExtraNames; extra != "" && strings.Contains(name, extra) {
		return true
	}
	return m.Config.TieWordEmbeddings && name == headWeight || strings.HasSuffix(name, ".rotary_emb.inv_freq")
}

// checkTied refuses files whose head is another one than the embedding, where config.json says that they are one.
func (m *Model) checkTied(set *checkpoint.Set) error {
	const head, embedding = headWeight, "model.embed_tokens.weight"
	if _, _, copied := set.Lookup(head); !copied || !m.Config.TieWordEmbeddings {
		return nil
	}
	if same, err := set.Same(head, embedding); same || err != nil {
		return err
	}
	return fmt.Errorf("%s and %s of the files differ, but tie_word_embeddings of config.json is true: transformers 4 has the "+
		"second for both, and 5 has each; set it to false, or take the first out of the files", head, embedding)
}

// layerOf returns the number of the layer that a tensor is of, false for one outside of layers.
func layerOf(name string) (number int, ok bool) {
	rest, ok := strings.CutPrefix(name, "model.layers.")
	text, _, _ := strings.Cut(rest, ".")
	number, err := strconv.Atoi(text)
	return number, ok && err == nil
}

// read fills an entry of a parameter.
func read(p *nn.Param, e nn.Entry, stored core.Tensor) error {
	err := readable(e, stored.DType, stored.Shape)
	if err == nil {
		p.Set(e, stored)
	}
	return err
}

// readable refuses a tensor that an entry cannot be filled with.
func readable(e nn.Entry, dtype core.DType, shape core.Shape) error {
	if !shape.Equal(e.Shape) {
		return fmt.Errorf("%s is %v, want %v", e.Name, shape, e.Shape)
	}
	switch dtype {
	case core.Float32, core.BFloat16, core.Float16:
		return nil
	case core.InvalidDType:
		return fmt.Errorf("%s is of bytes; supported: float32, bfloat16, float16", e.Name)
	}
	return fmt.Errorf("%s is %s; supported: float32, bfloat16, float16", e.Name, dtype)
}

// list returns an error with the first few names, nil for none.
func list(one, many, what string, names []string) error {
	const most = 8
	if len(names) == 0 {
		return nil
	}
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	if len(names) == 1 {
		many = one
	}
	return fmt.Errorf("%d %s %s: %s", len(names), many, what, text)
}
