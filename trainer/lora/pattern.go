package lora

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"

	"github.com/seed98097648/tune/trainer/nn"
)

// Pattern gives modules a rank or an alpha of their own, as rank_pattern and alpha_pattern of PEFT do. Of several
// entries that match a module the first counts.
type Pattern []Entry

// Entry is the number of all modules whose path, or what follows one of its dots, the expression Key matches.
type Entry struct {
	Key   string
	Value float64
}

// UnmarshalJSON implements json.Unmarshaler. The order of an object's members is kept.
func (p *Pattern) UnmarshalJSON(b []byte) error {
	var values map[string]*float64
	if err := json.Unmarshal(b, &values); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	*p = nil
	for token, err := d.Token(); err == nil; token, err = d.Token() {
		key, is := token.(string) // only keys are texts
		if !is || slices.ContainsFunc(*p, func(e Entry) bool { return e.Key == key }) {
			continue
		}
		if values[key] == nil {
			return &json.UnmarshalTypeError{Value: "null", Type: reflect.TypeFor[float64]()}
		}
		*p = append(*p, Entry{key, *values[key]})
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (p Pattern) MarshalJSON() ([]byte, error) {
	out := []byte("{")
	for i, e := range p {
		one, err := json.Marshal(map[string]float64{e.Key: e.Value})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, one[1:len(one)-1]...)
	}
	return append(out, '}'), nil
}

// compile returns what says whether a path, all of it, is one of an entry's.
func (p Pattern) compile() (all []func(path string) bool, err error) {
	for _, e := range p {
		r, err := regexp.Compile(`^(.*\.)?(` + e.Key + `)$`)
		if err != nil {
			return nil, fmt.Errorf("%q: %w; name its modules without that", e.Key, err)
		}
		matches := r.MatchString
		if plain.MatchString(e.Key) { // all modules by name are asked of all modules: experts are thousands
			matches = func(path string) bool { return endsWith(path, e.Key) }
		}
		all = append(all, matches)
	}
	return all, nil
}

// plain is an expression that has no other sign than dots.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.]*$`)

// endsWith matches such an expression, to which a dot is any character.
func endsWith(path, key string) bool {
	at := len(path) - len(key)
	if at < 0 || at > 0 && path[at-1] != '.' {
		return false
	}
	for i := range len(key) {
		if key[i] != '.' && key[i] != path[at+i] {
			return false
		}
	}
	return true
}

// validatePatterns reports a number that no adapter can have.
func (c Config) validatePatterns() error {
	for _, e := range c.Ranks {
		if e.Value < 1 || e.Value > mostRank || e.Value != math.Trunc(e.Value) {
			return fmt.Errorf("field rank_pattern gives %q %g, must be a whole number between 1 and %d", e.Key, e.Value,
				mostRank)
		}
	}
	for _, e := range c.Alphas {
		if e.Value < 0 || e.Value > math.MaxFloat32 {
			return fmt.Errorf("field alpha_pattern gives %q %g, must not be negative, and finite in float32", e.Key, e.Value)
		}
	}
	return nil
}

// each returns the configuration of each target, with its own rank and alpha.
func (c Config) each(targets []nn.Target) (all []Config, err error) {
	ranks, err := c.Ranks.compile()
	if err != nil {
		return nil, fmt.Errorf("field rank_pattern: %w", err)
	}
	alphas, err := c.Alphas.compile()
	if err != nil {
		return nil, fmt.Errorf("field alpha_pattern: %w", err)
	}
	for _, t := range targets {
		var own Config
		for e, module := range t.Modules {
			matches := func(is func(string) bool) bool { return is(module) }
			one := c
			if i := slices.IndexFunc(ranks, matches); i >= 0 {
				one.Rank = int(c.Ranks[i].Value)
			}
			if i := slices.IndexFunc(alphas, matches); i >= 0 {
				one.Alpha = c.Alphas[i].Value
			}
			if e > 0 && (one.Rank != own.Rank || one.Alpha != own.Alpha) {
				return nil, fmt.Errorf("fields rank_pattern and alpha_pattern: %s has r %d and lora_alpha %g, but %s has "+
					"%d and %g; all experts of a layer need the same", t.Modules[0], own.Rank, own.Alpha, module,
					one.Rank, one.Alpha)
			}
			own = one
		}
		all = append(all, own)
	}
	return all, nil
}

// Alpha returns what all adapters are scaled by once it is divided by the rank of each. It is an error if there is no
// such number.
func (a *Adapter) Alpha() (alpha float64, err error) {
	for i, c := range a.each {
		own := c.Alpha
		if c.RSLoRA {
			own *= math.Sqrt(float64(c.Rank))
		}
		if i > 0 && own != alpha {
			return 0, errors.New("rank_pattern or alpha_pattern gives adapters different scales")
		}
		alpha = own
	}
	return alpha, nil
}
