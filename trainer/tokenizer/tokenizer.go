// Package tokenizer turns text into the token ids of a model and back, as
// described by the file tokenizer.json that Hugging Face models carry.
//
// It reads the byte-level BPE tokenizers (GPT-2, Llama 3, Qwen, GLM-4) and the
// sentencepiece-style ones (Llama 2 and its kin, Gemma, and Unigram models), and gives the ids that Hugging
// Face's own library gives. A text passes through five stages, each described by
// one field of tokenizer.json and each in a file of its own here:
//
//	added_tokens    cuts out tokens such as <|im_end|>          added.go
//	normalizer      rewrites the text between them, e.g. NFC    normalizer.go, precompiled.go
//	pre_tokenizer   cuts that into words                        pretokenizer.go
//	model           cuts each word into tokens                  bpe.go, unigram.go
//	post_processor  adds tokens around the text, e.g. <s>       postprocessor.go
//
// and decoder.go goes back. What a file asks for and this package lacks is an
// error that names the field, never a guess: a model trained on wrong ids learns
// the wrong thing without any other sign.
//
// The fields "truncation" and "padding" are ignored: how long a sample may be is
// decided by who prepares the data.
package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Tokenizer converts between text and token ids. It is safe for use by several
// goroutines.
type Tokenizer struct {
	added       addedTokens
	normalize   normalizer
	preTokenize preTokenizer
	model       model
	postProcess postProcessor
	decode      decoder

	addedIDs  map[string]int32 // ids of the added tokens; the others are in the model
	tokens    map[int32]string // all tokens
	vocabSize int

	bos, eos, pad specialID
}

// specialID is the id of a token with a role; ok is false when nothing has the role.
type specialID struct {
	id int32
	ok bool
}

// Files returns the names of the files that make up a tokenizer in a model's
// folder. Who writes a changed model into a new folder copies those of them that
// exist.
func Files() []string {
	return []string{
		tokenizerFile, configFile, specialTokensFile,
		"tokenizer.model", "vocab.json", "merges.txt", "added_tokens.json", "chat_template.jinja", "chat_template.json",
	}
}

const (
	tokenizerFile     = "tokenizer.json"
	configFile        = "tokenizer_config.json"
	specialTokensFile = "special_tokens_map.json"
)

// Load reads the tokenizer of the model in the folder dir: tokenizer.json, what tokenizer_config.json says of added
// tokens in added_tokens_decoder, and the special tokens, with the names of the BOS, EOS and padding tokens, from
// tokenizer_config.json or else special_tokens_map.json, where they exist.
func Load(dir string) (*Tokenizer, error) {
	name := filepath.Join(dir, tokenizerFile)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("tokenizer: %w; a model's folder needs tokenizer.json "+
			"(tokenizer.model and vocab.json are not read: save the tokenizer as a \"fast\" one to get it)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return loadFrom(dir, name, data)
}

// loadFrom is Load with a tokenizer.json of these contents.
func loadFrom(dir, name string, data []byte) (*Tokenizer, error) {
	beside, err := readBeside(dir)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := parse(data, beside)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", name, err)
	}
	if err := t.loadRoles(dir); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

// Parse builds a tokenizer from the contents of a tokenizer.json; name is the
// file's name in errors. BOS, EOS and Pad of the result are unset, for
// tokenizer.json does not tell them.
func Parse(name string, data []byte) (*Tokenizer, error) {
	t, err := parse(data, beside{})
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", name, err)
	}
	return t, nil
}

// Encode returns the ids of text. Added tokens such as <|im_end|> are recognised
// wherever they stand in it. With addSpecial the result also has the tokens that
// the post-processor puts around a text, such as a leading <s>. Bytes that are not
// UTF-8 are read as U+FFFD.
func (t *Tokenizer) Encode(text string, addSpecial bool) []int32 {
	text = lossyUTF8(text)
	ids := make([]int32, 0, len(text)/3+4)
	t.added.exact.split(text, func(s segment) {
		if s.token != nil {
			ids = append(ids, s.token.ID)
			return
		}
		ids = t.encodeSegment(ids, s)
	})
	if addSpecial {
		ids = t.postProcess(ids)
	}
	return ids
}

// encodeSegment appends the ids of the text between two added tokens.
func (t *Tokenizer) encodeSegment(ids []int32, s segment) []int32 {
	t.added.normalized.split(t.normalize(s.text), func(n segment) {
		if n.token != nil {
			ids = append(ids, n.token.ID)
			return
		}
		word := piece{text: n.text, first: s.start == 0 && n.start == 0}
		t.preTokenize(word, func(w piece) { ids = t.model.encode(ids, w.text) })
	})
	return ids
}

// Decode returns the text of ids. Ids that no token has are left out, and so are
// special tokens when skipSpecial is set. Bytes that do not make up a character, as
// at the end of a cut sequence, become U+FFFD.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	in := make([]part, 0, len(ids))
	for _, id := range ids {
		if token, ok := t.text(id, skipSpecial); ok {
			in = append(in, part{text: token})
		}
	}
	return join(t.decode()(in, true))
}

// text returns the token with the given id, unless Decode leaves it out.
func (t *Tokenizer) text(id int32, skipSpecial bool) (token string, ok bool) {
	token, ok = t.tokens[id]
	return token, ok && !(skipSpecial && t.added.special[token])
}

// VocabSize returns the largest id plus one: the fewest rows an embedding table for
// this tokenizer can have. Model files often have more.
func (t *Tokenizer) VocabSize() int { return t.vocabSize }

// TokenID returns the id of a token as tokenizer.json spells it: in a byte-level
// vocabulary " the" is spelt "Ġthe".
func (t *Tokenizer) TokenID(token string) (id int32, ok bool) {
	if id, ok = t.addedIDs[token]; !ok {
		id, ok = t.model.ids()[token]
	}
	return id, ok
}

// Token returns the token with the given id as tokenizer.json spells it. Use Decode
// for the text it stands for.
func (t *Tokenizer) Token(id int32) (token string, ok bool) {
	token, ok = t.tokens[id]
	return token, ok
}

// BOS returns the id of the token that begins a text, if the model has one.
func (t *Tokenizer) BOS() (id int32, ok bool) { return t.bos.id, t.bos.ok }

// EOS returns the id of the token that ends a text, if the model has one.
func (t *Tokenizer) EOS() (id int32, ok bool) { return t.eos.id, t.eos.ok }

// Pad returns the id of the token that fills up short sequences, if the model has
// one.
func (t *Tokenizer) Pad() (id int32, ok bool) { return t.pad.id, t.pad.ok }

// index fills the maps between all tokens and their ids.
func (t *Tokenizer) index(added []addedToken) error {
	t.tokens = make(map[int32]string, len(t.model.ids())+len(added))
	for token, id := range t.model.ids() {
		if other, ok := t.tokens[id]; ok {
			return fmt.Errorf("model.vocab: the tokens %q and %q have the same id %d", token, other, id)
		}
		if err := t.enter(token, id); err != nil {
			return fmt.Errorf("model.vocab: %w", err)
		}
	}
	t.addedIDs = make(map[string]int32, len(added))
	next := int32(len(t.model.ids())) // what Hugging Face's library gives the next token that is not in the vocabulary
	for i, a := range added {
		id, known := t.TokenID(a.Content)
		switch {
		case a.Content == "":
			return fmt.Errorf("added_tokens[%d].content is empty; remove the entry", i)
		case known && id != a.ID:
			return fmt.Errorf("added_tokens[%d]: token %q has id %d here and %d elsewhere in the file; make them equal", i,
				a.Content, a.ID, id)
		case !known && a.ID != next && a.ID >= 0:
			return fmt.Errorf("added_tokens[%d]: token %q has id %d, but Hugging Face's library gives it the next one, "+
				"%d, whatever the file says: add tokens for the ids between, or order them by their ids", i, a.Content,
				a.ID, next)
		}
		next = max(next, a.ID+1)
		t.addedIDs[a.Content] = a.ID
		if err := t.enter(a.Content, a.ID); err != nil {
			return fmt.Errorf("added_tokens[%d]: %w", i, err)
		}
	}
	return nil
}

// enter makes token the text of id; an added token wins over the model's.
func (t *Tokenizer) enter(token string, id int32) error {
	if id < 0 {
		return fmt.Errorf("token %q has the negative id %d", token, id)
	}
	t.tokens[id] = token
	t.vocabSize = max(t.vocabSize, int(id)+1)
	return nil
}
