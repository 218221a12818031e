package generate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/seed98097648/tune/internal/fields"
	"github.com/seed98097648/tune/internal/plainjson"
)

// Defaults are what a model's folder says about generation.
type Defaults struct {
	Sampling Sampling
	EOS      []int32 // each of these tokens ends a text
}

// ids is a token or a list of tokens.
type ids []int32

// UnmarshalJSON implements json.Unmarshaler.
func (v *ids) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) {
		return json.Unmarshal(b, (*[]int32)(v))
	}
	var id *int32
	if err := json.Unmarshal(b, &id); err != nil || id == nil {
		return err
	}
	*v = ids{*id}
	return nil
}

// transformersTopK is what transformers takes for a generation_config.json that samples
// and does not say top_k.
const transformersTopK = 50

// LoadDefaults reads generation_config.json, which need not exist, from a model's folder.
// Its eos_token_id comes before that of config.json. A model whose file does not say
// do_sample takes the likeliest token.
func LoadDefaults(dir string) (Defaults, error) {
	var g struct {
		EOS               ids      `json:"eos_token_id"`
		DoSample          bool     `json:"do_sample"`
		Temperature       *float64 `json:"temperature"`
		TopK              *int     `json:"top_k"`
		TopP              *float64 `json:"top_p"`
		MinP              *float64 `json:"min_p"`
		RepetitionPenalty *float64 `json:"repetition_penalty"`
	}
	if err := readJSON(dir, "generation_config.json", &g); err != nil {
		return Defaults{}, err
	}
	if g.RepetitionPenalty != nil && *g.RepetitionPenalty == 0 { // which is none in Sampling
		return Defaults{}, fmt.Errorf("generate: %s: repetition_penalty is 0, "+PenaltyRange,
			filepath.Join(dir, "generation_config.json"))
	}
	d := Defaults{EOS: g.EOS}
	if d.EOS == nil {
		var c struct {
			EOS ids `json:"eos_token_id"`
		}
		if err := readJSON(dir, "config.json", &c); err != nil {
			return Defaults{}, err
		}
		d.EOS = c.EOS
	}
	d.Sampling.RepetitionPenalty, d.Sampling.TopP = or(g.RepetitionPenalty, 1), 1
	if g.DoSample {
		d.Sampling.Temperature = or(g.Temperature, 1)
		d.Sampling.TopK = or(g.TopK, transformersTopK)
		d.Sampling.TopP = or(g.TopP, 1)
		d.Sampling.MinP = or(g.MinP, 0)
	}
	if err := d.Sampling.Validate(); err != nil {
		text := err.Error() // the file has other names than the fields here
		for key, field := range fields.Names(reflect.TypeFor[Sampling]()) {
			text = strings.ReplaceAll(text, field, key)
		}
		return Defaults{}, fmt.Errorf("generate: %s: %s", filepath.Join(dir, "generation_config.json"), text)
	}
	d.EOS = slices.DeleteFunc(d.EOS, func(id int32) bool { return id < 0 }) // which some files write for none
	return d, nil
}

// readJSON fills v from a file, and leaves it alone if there is none.
func readJSON(dir, name string, v any) error {
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = plainjson.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("generate: %s: %w", path, err)
	}
	return nil
}

func or[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}
