package generate_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// newEngine returns one of a small model, with what the same model writes alone.
func newEngine(t *testing.T, c generate.EngineConfig) (*generate.Engine, *tokenizer.Tokenizer) {
	t.Helper()
	dir := testdata.Shared(t, "data", "models", "stories260K")
	tok := loadTokenizer(t, dir)
	e, err := generate.NewEngine(load(t, dir), tok, autograd.Heap{}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e, tok
}

func TestTokensComeWithTheirTextAndProbability(t *testing.T) {
	e, tok := newEngine(t, generate.EngineConfig{})
	var text strings.Builder
	var ids []int32
	r, err := e.Generate(t.Context(), generate.Request{Prompt: tok.Encode("Once upon a time", true), LogProbs: 3,
		Options: generate.Options{MaxNewTokens: 40, Stop: []string{"little girl"}},
		Token: func(k generate.Token) error {
			text.WriteString(k.Text)
			ids = append(ids, k.ID)
			if len(k.Top) != 3 || k.Top[0] != (generate.LogProb{ID: k.ID, LogProb: k.LogProb}) {
				t.Errorf("token %d with %g is not the likeliest of %v", k.ID, k.LogProb, k.Top)
			}
			if sum := math.Exp(k.Top[0].LogProb) + math.Exp(k.Top[1].LogProb) + math.Exp(k.Top[2].LogProb); sum > 1 ||
				k.Top[0].LogProb < k.Top[1].LogProb || k.Top[1].LogProb < k.Top[2].LogProb {
				t.Errorf("probabilities %v", k.Top)
			}
			return nil
		}})
	if err != nil || r.Reason != generate.Stop || r.Text != text.String() || len(ids) != len(r.Tokens) ||
		r.Text != ", there was a " {
		t.Errorf("%+v, %v; the tokens came with %q", r, err, text.String())
	}
}

func TestEngineAnswersManyAtOnce(t *testing.T) {
	e, tok := newEngine(t, generate.EngineConfig{})
	s, _ := storyteller(t)
	prompts := []string{"Once upon a time", "Once a day", "The", "Lily and Tom went", "A dog"}
	var all sync.WaitGroup
	for i, prompt := range prompts {
		o := generate.Options{MaxNewTokens: 20 + 7*i}
		want := run(t, s, tok, prompt, o)
		all.Go(func() {
			r, err := e.Generate(t.Context(), generate.Request{Prompt: tok.Encode(prompt, true), Options: o})
			if err != nil || r.Text != want.Text || r.Reason != want.Reason {
				t.Errorf("%q: %+v, %v; want %q", prompt, r, err, want.Text)
			}
		})
	}
	all.Wait()
	if st := e.Stats(); st.Running != 0 || st.Waiting != 0 || st.Generated != 20+27+34+41+48 {
		t.Errorf("afterwards: %+v", st)
	}
}

func TestEngineRefusesWhatItCannotDo(t *testing.T) {
	e, tok := newEngine(t, generate.EngineConfig{Limit: 20})
	if _, err := e.Generate(t.Context(), generate.Request{Prompt: make([]int32, 21)}); !errors.Is(err, generate.ErrFull) {
		t.Errorf("a prompt that is too long: %v", err)
	}
	if _, err := e.Generate(t.Context(), generate.Request{Prompt: []int32{1}, Adapter: "poet"}); err == nil {
		t.Error("an adapter that there is none of")
	}
	broken := errors.New("nobody reads")
	if _, err := e.Generate(t.Context(), generate.Request{Prompt: []int32{1},
		Token: func(generate.Token) error { return broken }}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if _, err := generate.NewEngine(nil, tok, nil, generate.EngineConfig{Blocks: -1}); err == nil {
		t.Error("a negative number of blocks")
	}
}

func TestEndedRequestsGiveWhatTheyHave(t *testing.T) {
	e, tok := newEngine(t, generate.EngineConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	r, err := e.Generate(ctx, generate.Request{Prompt: tok.Encode("Once", true), Token: func(generate.Token) error {
		if n++; n == 5 {
			cancel()
		}
		return nil
	}})
	if err != nil || r.Reason != generate.Interrupted || r.Text == "" {
		t.Errorf("%+v, %v", r, err)
	}
	if st := e.Stats(); st.Running+st.Waiting != 0 {
		t.Errorf("afterwards: %+v", st)
	}
}

// TestClosingEndsAllTexts: one that goes on, one that waits for its turn, and one that the engine has not taken yet.
func TestClosingEndsAllTexts(t *testing.T) {
	e, tok := newEngine(t, generate.EngineConfig{MaxSequences: 1})
	q := generate.Request{Prompt: tok.Encode("Once", true)}
	errs := make(chan error, 3)
	ask := func(q generate.Request) {
		_, err := e.Generate(t.Context(), q)
		errs <- err
	}
	first, n := q, 0
	first.Token = func(generate.Token) error {
		switch n++; n {
		case 1:
			go ask(q)
		case 10:
			go e.Close()
			ask(q) // which ends when Close has begun: meanwhile, the engine takes nothing
		}
		return nil
	}
	ask(first)
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, generate.ErrClosed) {
			t.Errorf("closed in the middle: %v", err)
		}
	}
	e.Close()
	if st := e.Stats(); st.Running+st.Waiting != 0 {
		t.Errorf("closed: %+v", st)
	}
	if _, err := e.Generate(t.Context(), q); !errors.Is(err, generate.ErrClosed) {
		t.Errorf("closed before: %v", err)
	}
}
