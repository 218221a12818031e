package generate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed98097648/tune/trainer/tokenizer"
)

// Options say how a text goes on and where it ends.
type Options struct {
	Sampling     Sampling
	MaxNewTokens int      // 0 for as many as the session has room for
	EOS          []int32  // each of these tokens ends the text
	Stop         []string // each of these texts, too
	// Emit gets the text as it comes, in pieces that end at whole characters; nil for
	// nobody. Its error ends the run.
	Emit func(text string) error
}

// Reason is why a text ended.
type Reason string

// The reasons.
const (
	EOS         Reason = "eos"         // the model ended it
	Stop        Reason = "stop"        // it came to a text of Options.Stop
	Length      Reason = "length"      // it has MaxNewTokens
	Full        Reason = "full"        // the session has no room for more
	Interrupted Reason = "interrupted" // the context ended
)

// Result is what was generated, and what it cost.
type Result struct {
	Text         string        // without the token or the text that ended it
	Tokens       []int32       // those of Text, and the one that ended it if that was chosen
	Reason       Reason        // why it ended
	PromptTokens int           // of the prompt
	Reused       int           // tokens of the prompt that the session had read before
	Prefill      time.Duration // to read the rest of the prompt
	Decode       time.Duration // for all tokens after the first, which the prompt's logits give
}

// PrefillRate returns the tokens of the prompt that were read in a second, 0 for none.
func (r *Result) PrefillRate() float64 { return rate(r.PromptTokens-r.Reused, r.Prefill) }

// DecodeRate returns the new tokens in a second, without the first; 0 for none.
func (r *Result) DecodeRate() float64 { return rate(len(r.Tokens)-1, r.Decode) }

func rate(tokens int, took time.Duration) float64 {
	if tokens <= 0 || took <= 0 {
		return 0
	}
	return float64(tokens) / took.Seconds()
}

// Run lets the model go on after the prompt. What the session has read stays if the prompt
// begins with it, and is forgotten otherwise. When ctx ends the result has the text so
// far; that is no error.
func Run(ctx context.Context, s *Session, tok *tokenizer.Tokenizer, prompt []int32, o Options) (*Result, error) {
	if err := o.Sampling.Validate(); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	if len(prompt) == 0 {
		return nil, errors.New("generate: the prompt has no tokens, and this tokenizer begins a text with none; give it " +
			"some text")
	}
	if len(prompt) > s.Limit() {
		return nil, fmt.Errorf("generate: %w: the prompt has %d tokens, and there is room for %d", ErrFull, len(prompt),
			s.Limit())
	}
	r := &Result{PromptTokens: len(prompt), Reused: common(s.Tokens(), prompt[:len(prompt)-1])}
	s.Truncate(r.Reused)
	w := &writer{stop: stopper{stops: slices.DeleteFunc(slices.Clone(o.Stop), func(s string) bool { return s == "" })},
		emit: o.Emit, stream: tok.Stream(true)}
	w.begin(tok.Decode(prompt, true), prompt)
	start := time.Now()
	logits, err := s.Feed(ctx, prompt[r.Reused:])
	r.Prefill = time.Since(start)
	if err == nil {
		start = time.Now()
		err = r.loop(ctx, s, logits, w, o)
		r.Decode = time.Since(start)
	}
	if err != nil && ctx.Err() != nil {
		r.Reason, err = Interrupted, nil
	}
	if err == nil && r.Reason != Stop {
		err = w.flush()
	}
	r.Text = w.text.String()
	return r, err
}

// loop chooses tokens and reads them.
func (r *Result) loop(ctx context.Context, s *Session, logits []float32, w *writer, o Options) error {
	sampler := NewSampler(o.Sampling)
	for {
		id := sampler.Next(logits, s.Tokens())
		r.Tokens = append(r.Tokens, id)
		if slices.Contains(o.EOS, id) {
			r.Reason = EOS
			return nil
		}
		stopped, err := w.write(id)
		switch {
		case err != nil:
			return err
		case stopped:
			r.Reason = Stop
			return nil
		case len(r.Tokens) == o.MaxNewTokens:
			r.Reason = Length
			return nil
		case len(s.Tokens()) == s.Limit():
			r.Reason = Full
			return nil
		}
		if logits, err = s.Feed(ctx, []int32{id}); err != nil {
			return err
		}
	}
}

// common returns how many tokens two sequences begin with together.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// writer turns tokens into text and looks for what stops it.
type writer struct {
	stream *tokenizer.Stream
	held   string // the end of the prompt, as long as the stream holds it back
	stop   stopper
	text   strings.Builder
	emit   func(string) error
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

func (w *writer) write(id int32) (stopped bool, err error) {
	text, stopped := w.stop.push(w.new(w.stream.Next(id)))
	return stopped, w.put(text)
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

// flush writes what was held back.
func (w *writer) flush() error {
	text, _ := w.stop.push(w.new(w.stream.End()))
	return w.put(text + w.stop.rest())
}

func (w *writer) put(text string) error {
	w.text.WriteString(text)
	if w.emit == nil || text == "" {
		return nil
	}
	return w.emit(text)
}
