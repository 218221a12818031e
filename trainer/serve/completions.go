package serve

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// defaultMaxTokens is what the API gives to a completion that does not ask for another number.
const defaultMaxTokens = 16

// textRequest is the body of a request to go on after a text.
type textRequest struct {
	common
	Prompt   prompts         `json:"prompt"`
	Echo     bool            `json:"echo"`
	LogProbs *int            `json:"logprobs"` // how many of the likeliest tokens
	BestOf   int             `json:"best_of"`
	Suffix   json.RawMessage `json:"suffix"`
}

// prompts are a text, a list of texts, the tokens of one, or a list of these.
type prompts struct {
	texts  []string
	tokens [][]int32
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *prompts) UnmarshalJSON(b []byte) error {
	var text string
	if string(b) == "null" {
		return nil
	}
	if json.Unmarshal(b, &text) == nil {
		p.texts = []string{text}
		return nil
	}
	if texts, ok := listOf[string](b); ok {
		p.texts = texts
		return nil
	}
	if ids, ok := listOf[int32](b); ok {
		p.tokens = [][]int32{ids}
		return nil
	}
	lists, ok := listOf[json.RawMessage](b)
	for _, list := range lists {
		ids, isList := listOf[int32](list)
		ok = ok && isList
		p.tokens = append(p.tokens, ids)
	}
	if !ok {
		return badRequest("prompt", "prompt must be a text, a list of texts, a list of tokens, or a list of such lists")
	}
	return nil
}

// listOf reads a list of values, none of which is null.
func listOf[T any](b []byte) (list []T, ok bool) {
	var values []*T
	if json.Unmarshal(b, &values) != nil || values == nil || slices.Contains(values, nil) {
		return nil, false
	}
	for _, v := range values {
		list = append(list, *v)
	}
	return list, true
}

// encode returns the tokens of all prompts, and their texts.
func (p *prompts) encode(tok *tokenizer.Tokenizer) (ids [][]int32, texts []string, err error) {
	for _, t := range p.texts {
		ids, texts = append(ids, tok.Encode(t, true)), append(texts, t)
	}
	for _, t := range p.tokens {
		for _, id := range t {
			if _, ok := tok.Token(id); !ok {
				return nil, nil, badRequest("prompt", "the model has no token %d", id)
			}
		}
		ids, texts = append(ids, t), append(texts, tok.Decode(t, true))
	}
	if len(ids) == 0 {
		err = badRequest("prompt", "prompt is missing: say what to go on after")
	}
	return ids, texts, err
}

func (q *textRequest) check() error {
	if err := q.common.check(); err != nil {
		return err
	}
	if q.LogProbs != nil && (*q.LogProbs < 0 || *q.LogProbs > maxLikeliest) {
		return badRequest("logprobs", "logprobs is %d, must be between 0 and %d", *q.LogProbs, maxLikeliest)
	}
	if q.Echo && q.LogProbs != nil {
		return badRequest("logprobs", "logprobs cannot be had with echo: the tokens of a prompt have none here")
	}
	q.MaxTokens = cmp.Or(q.MaxTokens, new(defaultMaxTokens))
	return refuse(map[string]bool{"best_of": q.BestOf > 1, "suffix": given(q.Suffix)})
}

// complete goes on after a text.
func (s *Server) complete(w http.ResponseWriter, r *http.Request) error {
	var q textRequest
	if err := s.read(w, r, &q); err != nil {
		return err
	}
	m, err := s.model(q.Model)
	if err != nil {
		return err
	}
	release, err := s.admit(*q.N, max(1, len(q.Prompt.texts)+len(q.Prompt.tokens)))
	if err != nil {
		return err
	}
	defer release()
	ids, texts, err := q.Prompt.encode(m.Tokenizer)
	if err != nil {
		return err
	}
	j := &job{common: &q.common, model: m, form: &textForm{newHead("cmpl-", m).as("text_completion")}}
	if j.requests, err = s.requests(&q.common, m, "prompt", ids); err != nil {
		return err
	}
	for i := range j.requests {
		c := &choice{index: i, model: m, probs: q.LogProbs != nil}
		if q.Echo {
			c.held.text = texts[i / *q.N]
		}
		if j.choices = append(j.choices, c); c.probs {
			j.requests[i].LogProbs = orOwn(*q.LogProbs)
		}
	}
	return s.answer(w, r, j)
}

// textForm is the form of a text.
type textForm struct{ head }

type textObject struct {
	head
	Choices []textChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
}

type textChoice struct {
	Text     string        `json:"text"`
	Index    int           `json:"index"`
	LogProbs *textLogProbs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
}

type textLogProbs struct {
	Tokens  []string             `json:"tokens"`
	Chosen  []float64            `json:"token_logprobs"`
	Top     []map[string]float64 `json:"top_logprobs"`
	Offsets []int                `json:"text_offset"` // in characters
}

func (f *textForm) whole(choices []*choice, u usage) any {
	o := textObject{head: f.head, Usage: &u}
	for _, c := range choices {
		o.Choices = append(o.Choices, textChoice{c.all.text, c.index, f.logProbs(c, c.all), new(c.finish())})
	}
	return o
}

func (f *textForm) begin(*choice) any { return nil }

func (f *textForm) piece(c *choice, p piece) any {
	return textObject{head: f.head, Choices: []textChoice{{Text: p.text, Index: c.index, LogProbs: f.logProbs(c, p)}}}
}

func (f *textForm) end(c *choice) any {
	return textObject{head: f.head, Choices: []textChoice{{Index: c.index, Finish: new(c.finish())}}}
}

func (f *textForm) usage(u usage) any {
	return textObject{head: f.head, Choices: []textChoice{}, Usage: &u}
}

func (f *textForm) logProbs(c *choice, p piece) *textLogProbs {
	if !c.probs {
		return nil
	}
	l := &textLogProbs{Tokens: []string{}, Chosen: []float64{}, Top: []map[string]float64{},
		Offsets: append([]int{}, p.offsets...)}
	for _, t := range p.tokens {
		own := c.logProb(t.ID, t.LogProb)
		top := map[string]float64{}
		for _, p := range slices.Concat(t.Top, []generate.LogProb{{ID: t.ID, LogProb: t.LogProb}}) {
			name := c.logProb(p.ID, 0).Token
			if _, has := top[name]; !has { // parts of characters look alike, and the likeliest comes first
				top[name] = p.LogProb
			}
		}
		l.Tokens, l.Chosen, l.Top = append(l.Tokens, own.Token), append(l.Chosen, own.LogProb), append(l.Top, top)
	}
	return l
}
