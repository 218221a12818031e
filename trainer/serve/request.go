package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed98097648/tune/internal/fields"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/generate"
)

// What a request may ask for.
const (
	maxStops     = 16
	maxChoices   = 16
	maxLikeliest = 20
)

// common is what both kinds of requests have. Nil is what was not given.
type common struct {
	Model             string   `json:"model"`
	N                 *int     `json:"n"` // after check there is one
	MaxTokens         *int     `json:"max_tokens"`
	Temperature       *float64 `json:"temperature"`
	TopP              *float64 `json:"top_p"`
	TopK              *int     `json:"top_k"`
	MinP              *float64 `json:"min_p"`
	RepetitionPenalty *float64 `json:"repetition_penalty"`
	Seed              *int64   `json:"seed"`
	Stop              stops    `json:"stop"`
	Stream            bool     `json:"stream"`
	StreamOptions     struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	// What would change the answer, and is not there.
	FrequencyPenalty float64         `json:"frequency_penalty"`
	PresencePenalty  float64         `json:"presence_penalty"`
	LogitBias        json.RawMessage `json:"logit_bias"`
}

// stops are texts that end an answer: one, or a list.
type stops []string

// UnmarshalJSON implements json.Unmarshaler.
func (s *stops) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte(`"`)) {
		*s = stops{""}
		return json.Unmarshal(b, &(*s)[0])
	}
	if err := json.Unmarshal(b, (*[]string)(s)); err != nil {
		return badRequest("stop", "stop must be a text or a list of texts")
	}
	return nil
}

// read fills into with the body of a request, and checks it.
func (s *Server) read(w http.ResponseWriter, r *http.Request, into interface{ check() error }) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.MaxBody))
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		e := badRequest("", "the request has more than %d bytes, which is as much as this server reads", large.Limit)
		e.status = http.StatusRequestEntityTooLarge
		return e
	}
	if err != nil {
		e := badRequest("", "the request has not come whole: %v", err)
		if errors.Is(err, os.ErrDeadlineExceeded) { // clients come again by themselves
			e.status = http.StatusRequestTimeout
		}
		return e
	}
	// Or the wait for the client to hang up would end with the time to send.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if !utf8.Valid(body) || plainjson.Surrogates(body) != nil {
		return badRequest("", "the request is not UTF-8, or has half a character in an escape such as \\ud800")
	}
	if err := json.Unmarshal(body, into); err != nil {
		param := ""
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			param = strings.TrimPrefix(wrong.Field, "common.")
		}
		if known, ok := errors.AsType[*apiError](err); ok {
			return known
		}
		return badRequest(param, "%v", plainjson.Explain(body, into, err))
	}
	return into.check()
}

// given reports whether a field has a value that says anything.
func given(v json.RawMessage) bool {
	switch string(bytes.TrimSpace(v)) {
	case "", "null", "{}", "[]", `""`, "false":
		return false
	}
	return true
}

// refuse reports what is not there. Names are those of fields that were given.
func refuse(names map[string]bool) error {
	var first string
	for name, isGiven := range names {
		if isGiven && (first == "" || name < first) {
			first = name
		}
	}
	if first == "" {
		return nil
	}
	return badRequest(first, "%s is not supported by this server: leave it out", first)
}

// check validates what needs no model.
func (c *common) check() error {
	c.N = cmp.Or(c.N, new(1))
	switch {
	case *c.N < 1 || *c.N > maxChoices:
		return badRequest("n", "n is %d, must be between 1 and %d", *c.N, maxChoices)
	case c.MaxTokens != nil && *c.MaxTokens < 1:
		return badRequest("max_tokens", "max_tokens is %d, must be positive", *c.MaxTokens)
	case c.RepetitionPenalty != nil && *c.RepetitionPenalty == 0:
		return badRequest("repetition_penalty", "repetition_penalty is 0, "+generate.PenaltyRange)
	case len(c.Stop) > maxStops:
		return badRequest("stop", "stop has %d texts; at most %d are taken", len(c.Stop), maxStops)
	case slices.Contains(c.Stop, ""):
		return badRequest("stop", "stop has an empty text, which would end every answer at once")
	}
	return refuse(map[string]bool{"frequency_penalty": c.FrequencyPenalty != 0,
		"presence_penalty": c.PresencePenalty != 0, "logit_bias": given(c.LogitBias)})
}

// sampling returns how tokens are chosen: as the request says, and else as the model does.
func (c *common) sampling(m *Model) (generate.Sampling, error) {
	s := m.Sampling
	set(&s.Temperature, c.Temperature)
	set(&s.TopP, c.TopP)
	set(&s.TopK, c.TopK)
	set(&s.MinP, c.MinP)
	set(&s.RepetitionPenalty, c.RepetitionPenalty)
	if s.TopK == -1 { // which other servers take for all
		s.TopK = 0
	}
	if s.Seed = rand.Uint64(); c.Seed != nil {
		s.Seed = uint64(*c.Seed)
	}
	if err := s.Validate(); err != nil {
		message, param := strings.ReplaceAll(err.Error(), "\n", "; "), ""
		for key, field := range fields.Names(reflect.TypeFor[generate.Sampling]()) {
			if strings.Contains(message, field) {
				message, param = strings.ReplaceAll(message, field, key), key
			}
		}
		return s, badRequest(param, "%s", message)
	}
	return s, nil
}

func set[T any](to, v *T) {
	if v != nil {
		*to = *v
	}
}

// requests returns what the engine is asked: n texts for each prompt, in the order of the choices.
func (s *Server) requests(c *common, m *Model, param string, prompts [][]int32) ([]generate.Request, error) {
	sampling, err := c.sampling(m)
	if err != nil {
		return nil, err
	}
	o := generate.Options{Sampling: sampling, MaxNewTokens: s.MaxNewTokens, EOS: m.EOS, Stop: c.Stop}
	if c.MaxTokens != nil && (o.MaxNewTokens == 0 || *c.MaxTokens < o.MaxNewTokens) {
		o.MaxNewTokens = *c.MaxTokens
	}
	var all []generate.Request
	for _, p := range prompts {
		if len(p) == 0 {
			return nil, badRequest(param, "the prompt has no tokens: give it some text")
		}
		if most := m.Engine.Limit(); len(p) > most {
			e := badRequest(param, "the prompt has %d tokens; there is room for %d with the answer: shorten it", len(p), most)
			e.Code = new("context_length_exceeded")
			return nil, e
		}
		for i := range *c.N {
			o.Sampling.Seed = sampling.Seed + uint64(i) // choices of one prompt shall differ
			all = append(all, generate.Request{Prompt: p, Options: o, Adapter: m.Adapter})
		}
	}
	return all, nil
}
