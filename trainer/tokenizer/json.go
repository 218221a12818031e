package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed98097648/tune/internal/plainjson"
)

// file is tokenizer.json.
type file struct {
	AddedTokens   []addedToken       `json:"added_tokens"`
	Normalizer    *normalizerSpec    `json:"normalizer"`
	PreTokenizer  *preTokenizerSpec  `json:"pre_tokenizer"`
	Model         modelSpec          `json:"model"`
	PostProcessor *postProcessorSpec `json:"post_processor"`
	Decoder       *decoderSpec       `json:"decoder"`
}

// parse builds a tokenizer without roles; its errors begin with the JSON field.
func parse(data []byte, beside beside) (*Tokenizer, error) {
	f, m, err := parseModel(data)
	if err != nil {
		return nil, err
	}
	if err := f.override(beside, m.ids()); err != nil {
		return nil, err
	}
	t := &Tokenizer{model: m}
	if err = t.index(f.AddedTokens); err != nil {
		return nil, err
	}
	if t.normalize, err = newNormalizer(f.Normalizer, "normalizer"); err != nil {
		return nil, err
	}
	t.added = newAddedTokens(f.AddedTokens, t.normalize)
	if t.preTokenize, err = newPreTokenizer(f.PreTokenizer, "pre_tokenizer"); err != nil {
		return nil, err
	}
	if t.postProcess, err = newPostProcessor(f.PostProcessor, "post_processor", t.tokens); err != nil {
		return nil, err
	}
	if t.decode, err = newDecoder(f.Decoder, "decoder"); err != nil {
		return nil, err
	}
	return t, nil
}

// model cuts a word into tokens.
type model interface {
	// encode appends the tokens of a word to ids.
	encode(ids []int32, word string) []int32
	// ids returns those of all tokens.
	ids() map[string]int32
}

// parseModel reads the file, and builds its model.
func parseModel(data []byte) (*file, model, error) {
	var kind struct {
		Model struct{ Type any } `json:"model"`
	}
	if err := json.Unmarshal(data, &kind); err == nil && kind.Model.Type == "Unigram" {
		var f unigramFile
		if err := plainjson.Unmarshal(data, &f); err != nil {
			return nil, nil, err
		}
		m, err := newUnigram(&f.Model)
		if err != nil {
			return nil, nil, fmt.Errorf("model.%w", err)
		}
		return &f.file, m, nil
	}
	var f file
	if err := plainjson.Unmarshal(data, &f); err != nil {
		return nil, nil, err
	}
	m, err := newBPE(&f.Model, f.AddedTokens)
	if err != nil {
		return nil, nil, fmt.Errorf("model.%w", err)
	}
	return &f, m, nil
}

// unsupported reports a value that tokenizer.json may have and this package lacks.
func unsupported(field, value string, supported ...string) error {
	return fmt.Errorf("%s: %q is not supported; supported: %s", field, value, strings.Join(supported, ", "))
}

// chain builds the components of a list, to be applied one after the other.
func chain[S, T any, F ~func(T) T](specs []S, path, list string, build func(*S, string) (F, error)) (F, error) {
	steps := make([]F, len(specs))
	for i := range specs {
		var err error
		if steps[i], err = build(&specs[i], at(path, list, i)); err != nil {
			return nil, err
		}
	}
	return func(v T) T {
		for _, step := range steps {
			v = step(v)
		}
		return v
	}, nil
}

// at names the i-th component of the list called list in the component called path.
func at(path, list string, i int) string { return fmt.Sprintf("%s.%s[%d]", path, list, i) }

// orTrue is the value of a flag that is true when the file does not have it.
func orTrue(flag *bool) bool { return flag == nil || *flag }

// roles are the fields of tokenizer_config.json and special_tokens_map.json that
// say which token has which role.
type roles struct {
	BOS *roleToken `json:"bos_token"`
	EOS *roleToken `json:"eos_token"`
	Pad *roleToken `json:"pad_token"`
}

// roleToken is a token's text, written as a string or as an object with "content".
type roleToken string

// UnmarshalJSON reads both ways of writing a token.
func (r *roleToken) UnmarshalJSON(data []byte) error {
	if data[0] == '{' {
		var object struct{ Content string }
		err := json.Unmarshal(data, &object)
		*r = roleToken(object.Content)
		return err
	}
	return json.Unmarshal(data, (*string)(r))
}

// loadRoles sets the roles from the files in dir; a token that the first file does
// not name is looked for in the second.
func (t *Tokenizer) loadRoles(dir string) error {
	for _, name := range []string{configFile, specialTokensFile} {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := t.setRoles(data); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// setRoles sets the roles that data names and that are not set yet.
func (t *Tokenizer) setRoles(data []byte) error {
	var r roles
	if err := plainjson.Unmarshal(data, &r); err != nil {
		return err
	}
	for _, role := range []struct {
		field string
		token *roleToken
		dst   *specialID
	}{{"bos_token", r.BOS, &t.bos}, {"eos_token", r.EOS, &t.eos}, {"pad_token", r.Pad, &t.pad}} {
		if role.token == nil || role.dst.ok {
			continue
		}
		id, ok := t.TokenID(string(*role.token))
		if !ok {
			return fmt.Errorf("%s: %q is not a token of tokenizer.json; add it to added_tokens there or set it to null",
				role.field, *role.token)
		}
		*role.dst = specialID{id, true}
	}
	return nil
}
