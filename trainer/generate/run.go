package generate

import (
	"context"
	"time"

	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// Options say how a text goes on and where it ends.
type Options struct {
	Sampling     Sampling
	MaxNewTokens int      // 0 for as many as the session has room for
	EOS          []int32  // each of these tokens ends the text
	Stop         []string // each of these texts, too, or special tokens
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
	return s.run(ctx, tok, Request{Prompt: prompt, Options: o})
}

func (s *Session) run(ctx context.Context, tok *tokenizer.Tokenizer, q Request) (*Result, error) {
	t, err := newText(tok, q, s.limit)
	if err != nil {
		return nil, err
	}
	r := t.result
	r.Reused = common(s.Tokens(), q.Prompt[:len(q.Prompt)-1])
	s.Truncate(r.Reused)
	start := clock.Now()
	logits, err := s.Feed(ctx, q.Prompt[r.Reused:])
	r.Prefill = clock.Since(start)
	start = clock.Now()
	for err == nil {
		if err = t.next(logits, s.Tokens()); err != nil || r.Reason != "" {
			break
		}
		logits, err = s.Feed(ctx, r.Tokens[len(r.Tokens)-1:])
	}
	r.Decode = clock.Since(start)
	if err != nil && ctx.Err() != nil {
		err = t.interrupt()
	}
	return r, err
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
