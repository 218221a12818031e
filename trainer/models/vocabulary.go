package models

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/nn"
)

// Vocabulary says how a model grows by new tokens. The zero value leaves it as it is.
type Vocabulary struct {
	Known  int // tokens before; the rows after them are those of new tokens
	Tokens int // tokens now
	Pad    int // of what the rows are a multiple if there must be more of them; 0 for just enough
}

// rows returns how many rows the embedding and the head get that have so many.
func (v Vocabulary) rows(have int) int {
	if v.Tokens <= have {
		return have
	}
	pad := max(v.Pad, 1)
	return (v.Tokens + pad - 1) / pad * pad
}

// grow changes vocab_size of a config.json, and nothing else of it.
func (v Vocabulary) grow(config []byte) ([]byte, error) {
	if v.Tokens == 0 {
		return config, nil
	}
	config, found, err := plainjson.Splice(config, "vocab_size", func(value []byte) ([]byte, error) {
		if have, err := strconv.Atoi(string(value)); err == nil { // else what reads it says so
			value = strconv.AppendInt(nil, int64(v.rows(have)), 10)
		}
		return value, nil
	})
	if err == nil && !found {
		err = errors.New("config.json: it has no vocab_size of its own, so that no tokens can be added")
	}
	return config, err
}

// ofAdapter takes over how many rows the embedding of an adapter's folder has.
func (v *Vocabulary) ofAdapter(dir string) error {
	f, err := checkpoint.Open(filepath.Join(dir, lora.WeightsFile))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, shape, ok := f.Lookup("base_model.model.model.embed_tokens.weight"); ok && len(shape) == 2 {
		*v = Vocabulary{Tokens: shape[0]}
	}
	return nil
}

// isVocabulary reports whether a parameter has a row for each token.
func isVocabulary(p *nn.Param) bool {
	return p.Name == "model.embed_tokens.weight" || p.Name == "lm_head.weight"
}

// trained is an error if tokens are added whose rows would never be trained.
func (v Vocabulary) trained(m *Model, o LoadOptions) error {
	if v.Known == 0 || o.Frozen {
		return nil
	}
	for _, p := range m.Params() {
		if isVocabulary(p) && p.Frozen {
			return fmt.Errorf("tokens are added, but %s is not trained, and so their rows would stay as they begin: name it in "+
				"models.Selection.Modules, too", p.Name)
		}
	}
	return nil
}

// widen reads a tensor that has fewer rows than the parameter has now; false for any other.
func (v Vocabulary) widen(p *nn.Param, e nn.Entry, stored core.Tensor) bool {
	if v.Tokens == 0 || !isVocabulary(p) || len(stored.Shape) != 2 || stored.Shape[1] != e.Shape[1] ||
		stored.Shape[0] >= e.Shape[0] {
		return false
	}
	if read(p, nn.Entry{Name: e.Name, Offset: e.Offset, Shape: stored.Shape}, stored) != nil {
		return false
	}
	v.begin(p, stored.Shape[0], e.Shape[0])
	return true
}

// start gives the rows of new tokens the mean of those before, from which they are learned sooner than
// from random ones, which a head would prefer to all others (Hewitt, "Initializing New Word Embeddings
// for Pretrained Language Models", 2021).
func (v Vocabulary) start(m *Model) {
	for _, p := range m.Params() {
		if v.Known > 0 && isVocabulary(p) {
			v.begin(p, v.Known, min(v.Tokens, p.Tensor.Shape[0]))
		}
	}
}

// begin gives rows [from, to) the mean of the first v.Known.
func (v Vocabulary) begin(p *nn.Param, from, to int) {
	if v.Known == 0 || from >= to {
		return // an adapter's folder has them
	}
	width := p.Tensor.Shape[1]
	sum, row := make([]float64, width), make([]float32, width)
	for r := range min(v.Known, from) {
		p.Load(row, r*width)
		for i, x := range row {
			sum[i] += float64(x)
		}
	}
	for i, s := range sum {
		row[i] = float32(s / float64(min(v.Known, from)))
	}
	rows := core.FromFloat32(slices.Repeat(row, to-from), to-from, width)
	p.Set(nn.Entry{Name: p.Name, Offset: from * width, Shape: rows.Shape}, rows)
}

// whole checks that an adapter's folder has all rows of new tokens.
func (v Vocabulary) whole(m *Model) error {
	for _, p := range m.Params() {
		grown := isVocabulary(p) && v.Tokens > m.known[p.Name] && m.known[p.Name] > 0
		if grown && !slices.ContainsFunc(m.Adapter.Config().Modules, func(name string) bool { return p.Named(name) > 0 }) {
			return fmt.Errorf("models: the adapter has an embedding of %d tokens and no %s, of which the model has %d: train it with "+
				"both", v.Tokens, p.Name, m.known[p.Name])
		}
	}
	return nil
}
