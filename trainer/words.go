package trainer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// Words are tokens that a run adds to the model's tokenizer. Their rows of the embedding and of the
// head begin as the mean of all others.
type Words struct {
	Tokens  []string `json:"add_tokens,omitempty"`
	Special []string `json:"add_special_tokens,omitempty"` // which carry no text
	// Marks adds the special tokens that the built-in chat template of the data writes and the
	// tokenizer lacks.
	Marks bool `json:"add_template_tokens,omitempty"`
	Pad   int  `json:"pad_vocab,omitempty"` // the rows of a model that grows are a multiple of it
}

// Any reports whether there may be new tokens.
func (w Words) Any() bool { return len(w.Tokens) > 0 || len(w.Special) > 0 || w.Marks }

// Validate reports the field that makes no sense.
func (w Words) Validate() error {
	const most = 1 << 16
	if w.Pad < 0 || w.Pad > most {
		return fmt.Errorf("trainer.Words.Pad is %d, must be between 0 and %d", w.Pad, most)
	}
	if slices.Contains(slices.Concat(w.Tokens, w.Special), "") {
		return errors.New("trainer.Words.Tokens or trainer.Words.Special has an empty token")
	}
	return nil
}

// tokenizerFile is what new tokens are added to.
const tokenizerFile = "tokenizer.json"

// LoadTokenizer reads the tokenizer of a model, or that of its adapter if there is one that was
// trained with more tokens. The folder says which.
func LoadTokenizer(model, adapter string) (tok *tokenizer.Tokenizer, dir string, err error) {
	if tok, err = tokenizer.Load(model); err != nil || adapter == "" {
		return tok, model, err
	}
	if _, err := os.Stat(filepath.Join(adapter, tokenizerFile)); errors.Is(err, fs.ErrNotExist) {
		return tok, model, nil
	}
	own, err := tokenizer.Load(adapter)
	if err != nil {
		return nil, "", err
	}
	if own.VocabSize() > tok.VocabSize() {
		return own, adapter, nil
	}
	return tok, model, nil
}

// vocabulary reads the tokenizer with the new tokens, and says how the model grows by them. file is the
// new tokenizer.json, nil where there is none.
func (c Config) vocabulary() (tok *tokenizer.Tokenizer, v models.Vocabulary, file []byte, err error) {
	tok, dir, err := LoadTokenizer(c.Model, c.LoRA.Adapter)
	if err != nil || !c.Words.Any() {
		if err == nil && dir != c.Model {
			file, err = os.ReadFile(filepath.Join(dir, tokenizerFile))
		}
		return tok, v, file, err
	}
	if c.LoRA.Adapter != "" {
		return nil, v, nil, errors.New("trainer.Words: an adapter that is trained further keeps its tokens: leave them out, or " +
			"train a new one")
	}
	var words []tokenizer.Word
	for _, text := range c.Words.Tokens {
		words = append(words, tokenizer.Word{Text: text})
	}
	for _, text := range c.Words.Special {
		words = append(words, tokenizer.Word{Text: text, Special: true})
	}
	if c.Words.Marks {
		t, err := chat.Named(c.Data.Template, c.Model)
		if err != nil {
			return nil, v, nil, err
		}
		for _, mark := range t.Missing(tok.Encode) {
			words = append(words, tokenizer.Word{Text: mark, Special: true})
		}
	}
	known := tok.VocabSize()
	if tok, file, err = tokenizer.Extend(c.Model, words); err != nil || tok.VocabSize() == known {
		return tok, v, nil, err
	}
	return tok, models.Vocabulary{Known: known, Tokens: tok.VocabSize(), Pad: c.Words.Pad}, file, nil
}

// Tokenizer reads the tokenizer of a run, with the tokens that it adds.
func (c Config) Tokenizer() (*tokenizer.Tokenizer, error) {
	tok, _, _, err := c.vocabulary()
	return tok, err
}

// besides returns the modules that are trained as they are: with adapters, new tokens need the rows of the
// embedding and the head.
func (c Config) besides(v models.Vocabulary) models.Selection {
	s := c.Select
	if c.LoRA.Enabled() && v.Known > 0 {
		for _, name := range []string{"embed_tokens", head} {
			if !slices.Contains(s.Modules, name) {
				s.Modules = append(slices.Clip(s.Modules), name)
			}
		}
	}
	return s
}

// withTokenizer puts another tokenizer.json among the files.
func withTokenizer(files []File, text []byte) []File {
	files = slices.DeleteFunc(slices.Clone(files), func(f File) bool { return f.Name == tokenizerFile })
	return append(files, File{tokenizerFile, text})
}

// LoadOptions says how a run that is only forecast loads its model.
func (c Config) LoadOptions() (models.LoadOptions, error) {
	o := models.LoadOptions{LoRA: c.LoRA, Seed: c.Seed, Objective: c.Objective, Train: c.Select,
		Narrow: c.Optimizer.narrow()}
	if !c.Words.Any() {
		return o, nil
	}
	_, v, _, err := c.vocabulary()
	o.Vocabulary, o.Train = v, c.besides(v)
	return o, err
}
