package generate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed98097648/tune/trainer/tokenizer"
)

// Token is what one step adds to a text.
type Token struct {
	ID int32
	// Text is what is certain to be the next of the text; the pieces of all tokens together are
	// the text. It is empty while a character is incomplete, or while what came last may begin a
	// text that stops it.
	Text    string
	End     bool      // whether it ends the text and is no part of it; Text is then what was held back
	LogProb float64   // natural logarithm of its probability, before Options.Sampling; see Request.LogProbs
	Top     []LogProb // the likeliest tokens in its place, likeliest first
}

// text is one that goes on: what chooses its tokens, and what there is of it.
type text struct {
	Request
	limit   int     // tokens that it can have together with the prompt
	ends    []int32 // the special tokens of Options.Stop, of which the text shows nothing
	sampler *Sampler
	writer  *writer
	result  *Result
	said    strings.Builder // the text of the result, which would be copied for every token
}

// newText checks a request for a text of at most limit tokens, its prompt included.
func newText(tok *tokenizer.Tokenizer, q Request, limit int) (*text, error) {
	if err := q.Options.Sampling.Validate(); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	if len(q.Prompt) == 0 {
		return nil, errors.New("generate: the prompt has no tokens, and this tokenizer begins a text with none; give it " +
			"some text")
	}
	if len(q.Prompt) > limit {
		return nil, fmt.Errorf("generate: %w: the prompt has %d tokens, and there is room for %d", ErrFull, len(q.Prompt),
			limit)
	}
	stops := slices.DeleteFunc(slices.Clone(q.Options.Stop), func(s string) bool { return s == "" })
	w := &writer{stop: stopper{stops: stops}, stream: tok.Stream(true)}
	w.begin(tok.Decode(q.Prompt, true), q.Prompt)
	return &text{Request: q, limit: limit, ends: special(tok, stops), sampler: NewSampler(q.Options.Sampling), writer: w,
		result: &Result{PromptTokens: len(q.Prompt)}}, nil
}

// special returns the ids of the texts that are special tokens.
func special(tok *tokenizer.Tokenizer, texts []string) (all []int32) {
	for _, s := range texts {
		id, ok := tok.TokenID(s)
		if one := []int32{id}; ok && tok.Decode(one, false) == s && tok.Decode(one, true) == "" {
			all = append(all, id)
		}
	}
	return all
}

// next chooses the token that follows those before, given its logits, and hands it on. The result has a
// reason if it was the last.
func (t *text) next(logits []float32, before []int32) error {
	r := t.result
	token := Token{ID: t.sampler.Next(logits, before)}
	if t.LogProbs != 0 {
		token.LogProb, token.Top = logProbs(logits, token.ID, max(t.LogProbs, 0))
	}
	r.Tokens = append(r.Tokens, token.ID)
	stopped := false
	if slices.Contains(t.Options.EOS, token.ID) {
		r.Reason, token.End = EOS, true
	} else if slices.Contains(t.ends, token.ID) {
		r.Reason, token.End = Stop, true
	} else if token.Text, stopped = t.writer.next(token.ID); stopped {
		r.Reason = Stop
	} else if len(r.Tokens) == t.Options.MaxNewTokens {
		r.Reason = Length
	} else if len(before) == t.limit {
		r.Reason = Full
	}
	if r.Reason != "" && !stopped {
		token.Text += t.writer.end()
	}
	if err := t.put(token.Text); err != nil || t.Token == nil {
		return err
	}
	return t.Token(token)
}

// interrupt ends the text where it is.
func (t *text) interrupt() error {
	t.result.Reason = Interrupted
	return t.put(t.writer.end())
}

// put adds to the text.
func (t *text) put(s string) error {
	t.said.WriteString(s)
	t.result.Text = t.said.String()
	if t.Options.Emit == nil || s == "" {
		return nil
	}
	return t.Options.Emit(s)
}

// writer turns tokens into text and looks for what stops it.
type writer struct {
	stream *tokenizer.Stream
	held   string // the end of the prompt, as long as the stream holds it back
	stop   stopper
}

// begin reads the prompt, whose text is given: how the first new token reads depends on
// what is before it.
func (w *writer) begin(text string, prompt []int32) {
	n := 0
	for _, id := range prompt {
		n += len(w.stream.Next(id))
	}
	w.held = text[min(n, len(text)):]
}

// next returns what is certain of the text with one more token.
func (w *writer) next(id int32) (text string, stopped bool) {
	return w.stop.push(w.new(w.stream.Next(id)))
}

// new takes the end of the prompt away from the first text that the stream gives. Where a
// new token has completed a character, or spoiled it, that is not there, and what is
// there is new.
func (w *writer) new(text string) string {
	if text == "" {
		return ""
	}
	held := w.held
	w.held = ""
	return strings.TrimPrefix(text, held)
}

// end returns what was held back.
func (w *writer) end() string {
	text, _ := w.stop.push(w.new(w.stream.End()))
	return text + w.stop.rest()
}
