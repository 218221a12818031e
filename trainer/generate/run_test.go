package generate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// storyteller is a small model and its tokenizer.
func storyteller(t *testing.T) (*generate.Session, *tokenizer.Tokenizer) {
	t.Helper()
	dir := testdata.Shared(t, "data", "models", "stories260K")
	s := generate.NewSession(load(t, dir), autograd.Heap{}, 0)
	t.Cleanup(s.Close)
	return s, loadTokenizer(t, dir)
}

func run(t *testing.T, s *generate.Session, tok *tokenizer.Tokenizer, prompt string,
	o generate.Options) *generate.Result {
	t.Helper()
	r, err := generate.Run(t.Context(), s, tok, tok.Encode(prompt, true), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRunEndsForItsReason(t *testing.T) {
	s, tok := storyteller(t)
	const prompt = "Once upon a time"
	free := run(t, s, tok, prompt, generate.Options{MaxNewTokens: 40})
	if free.Reason != generate.Length || len(free.Tokens) != 40 || !strings.HasPrefix(free.Text, ", there was") {
		t.Errorf("%s after %d tokens: %q", free.Reason, len(free.Tokens), free.Text)
	}
	end := free.Tokens[9]
	eos := run(t, s, tok, prompt, generate.Options{MaxNewTokens: 40, EOS: []int32{9999, end}})
	if n := slices.Index(free.Tokens, end) + 1; eos.Reason != generate.EOS ||
		!slices.Equal(eos.Tokens, free.Tokens[:n]) || !strings.HasPrefix(free.Text, eos.Text) {
		t.Errorf("%s after %v: %q", eos.Reason, eos.Tokens, eos.Text)
	}
	stop := run(t, s, tok, prompt, generate.Options{MaxNewTokens: 40, Stop: []string{"xyz", "little girl"}})
	if want, _, _ := strings.Cut(free.Text, "little girl"); stop.Reason != generate.Stop || stop.Text != want {
		t.Errorf("%s: %q, want %q", stop.Reason, stop.Text, want)
	}
	full := run(t, s, tok, prompt, generate.Options{})
	if full.Reason != generate.Full || full.PromptTokens+len(full.Tokens) != s.Limit()+1 {
		t.Errorf("%s after %d and %d tokens of %d", full.Reason, full.PromptTokens, len(full.Tokens), s.Limit())
	}
}

func TestRunReadsOnlyWhatTheSessionHasNotRead(t *testing.T) {
	s, tok := storyteller(t)
	first := run(t, s, tok, "Once upon a time", generate.Options{MaxNewTokens: 8})
	if first.Reused != 0 {
		t.Errorf("an empty session had read %d tokens", first.Reused)
	}
	again := run(t, s, tok, "Once upon a time", generate.Options{MaxNewTokens: 8})
	if again.Reused != again.PromptTokens-1 || again.Text != first.Text {
		t.Errorf("the same prompt: %d of %d tokens were read before; %q, then %q", again.Reused, again.PromptTokens,
			first.Text, again.Text)
	}
	other := run(t, s, tok, "Once a day", generate.Options{MaxNewTokens: 8})
	fresh, _ := storyteller(t)
	if want := run(t, fresh, tok, "Once a day", generate.Options{MaxNewTokens: 8}); other.Text != want.Text ||
		other.Reused != 2 {
		t.Errorf("%q with %d of %d tokens read before, want %q", other.Text, other.Reused, other.PromptTokens, want.Text)
	}
}

func TestInterruptedRunReturnsWhatItHas(t *testing.T) {
	s, tok := storyteller(t)
	ctx, cancel := context.WithCancel(t.Context())
	pieces := 0
	r, err := generate.Run(ctx, s, tok, tok.Encode("Once upon a time", true), generate.Options{Emit: func(string) error {
		if pieces++; pieces == 5 {
			cancel()
		}
		return nil
	}})
	if err != nil || r.Reason != generate.Interrupted || r.Text == "" || len(r.Tokens) > 8 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = generate.Run(ctx, s, tok, tok.Encode("Another", true), generate.Options{}); err != nil ||
		r.Reason != generate.Interrupted || r.Text != "" {
		t.Errorf("interrupted before it began: %+v, %v", r, err)
	}
}

func TestRunPassesErrorsOn(t *testing.T) {
	s, tok := storyteller(t)
	broken := errors.New("nobody reads")
	if _, err := generate.Run(t.Context(), s, tok, tok.Encode("Once", true),
		generate.Options{Emit: func(string) error { return broken }}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if _, err := generate.Run(t.Context(), s, tok, nil, generate.Options{}); err == nil ||
		!strings.Contains(err.Error(), "prompt has no tokens") {
		t.Errorf("no prompt: %v", err)
	}
	if _, err := generate.Run(t.Context(), s, tok, make([]int32, s.Limit()+1), generate.Options{}); !errors.Is(err,
		generate.ErrFull) {
		t.Errorf("a prompt that is too long: %v", err)
	}
	if _, err := generate.Run(t.Context(), s, tok, []int32{1},
		generate.Options{Sampling: generate.Sampling{TopP: 2}}); err == nil {
		t.Error("a setting that makes no sense")
	}
}

func TestSampledTextFollowsFromTheSeed(t *testing.T) {
	s, tok := storyteller(t)
	write := func(seed uint64) string {
		return run(t, s, tok, "Once upon a time",
			generate.Options{MaxNewTokens: 60, Sampling: generate.Sampling{Temperature: 1, TopP: 0.95, Seed: seed}}).Text
	}
	if a, b := write(1), write(1); a != b {
		t.Errorf("%q, then %q", a, b)
	}
	if write(1) == write(2) {
		t.Error("another seed gives the same text")
	}
}
