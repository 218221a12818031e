package models

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

const twenty = `{"model_type": "llama", "vocab_size": 20, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
	"num_attention_heads": 2, "max_position_embeddings": 64}`

// TestNewTokensBeginAsTheMean: of 18 tokens that are known of 20 rows, in bfloat16.
func TestNewTokensBeginAsTheMean(t *testing.T) {
	dir := t.TempDir()
	m, err := New([]byte(twenty), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	var tensors []checkpoint.Named
	for _, p := range m.Params() {
		half := core.NewTensor(core.BFloat16, p.Tensor.Shape...)
		half.Store(p.Tensor.Float32s(), 0)
		tensors = append(tensors, checkpoint.Named{Name: p.Name, Tensor: half})
	}
	if err := checkpoint.Write(filepath.Join(dir, checkpoint.SingleFile), tensors, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(twenty), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		v          Vocabulary
		rows, from int // where the mean begins
		to         int // and ends
	}{
		"within the rows": {Vocabulary{Known: 18, Tokens: 19}, 20, 18, 19},
		"beyond them":     {Vocabulary{Known: 18, Tokens: 23}, 23, 18, 23},
		"to a multiple":   {Vocabulary{Known: 20, Tokens: 21, Pad: 32}, 32, 20, 32},
	} {
		for _, frozen := range []bool{false, true} {
			m, err := LoadWith(dir, autograd.Heap{}, LoadOptions{Vocabulary: c.v, Frozen: frozen})
			if err != nil {
				t.Fatal(name, err)
			}
			if !strings.Contains(string(m.RawConfig), `"vocab_size": `+[]string{"20", "23", "32"}[slices.Index([]int{20, 23, 32}, c.rows)]+`, "hidden_size": 8`) || m.Vocab() != c.rows {
				t.Errorf("%s: %s", name, m.RawConfig)
			}
			for i, p := range m.Params() {
				if !isVocabulary(p) {
					continue
				}
				all := make([]float32, p.Tensor.Elems())
				p.Tensor.Load(all, 0)
				was := make([]float32, 20*8)
				tensors[i].Tensor.Load(was, 0)
				if p.Tensor.Shape[0] != c.rows || !slices.Equal(all[:c.from*8], was[:c.from*8]) ||
					c.to < 20 && !slices.Equal(all[c.to*8:], was[c.to*8:]) {
					t.Errorf("%s: %s %v lost what was known", name, p.Name, p.Tensor.Shape)
				}
				for col := range 8 {
					mean := 0.0
					for r := range c.v.Known {
						mean += float64(was[r*8+col]) / float64(c.v.Known)
					}
					for r := c.from; r < c.to; r++ {
						if got := float64(all[r*8+col]); !(math.Abs(got-mean) <= 0x1p-8*math.Abs(mean)+1e-7) {
							t.Errorf("%s: %s, row %d begins as %g, want %g", name, p.Name, r, got, mean)
						}
					}
				}
			}
		}
	}
	if _, err := (Vocabulary{Known: 1, Tokens: 2}).grow([]byte(`{"text_config": {"vocab_size": 1}}`)); err == nil {
		t.Error("a config.json without vocab_size of its own grows")
	}
}
