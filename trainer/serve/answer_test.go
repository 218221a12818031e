package serve_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed98097648/tune/trainer/generate"
)

func TestAConversationIsAnswered(t *testing.T) {
	s := start(t, &parrot{says: "Hello", wait: ready}, plainTemplate, nil)
	a := s.whole("/v1/chat/completions", `{"model": "m", "messages": [{"role": "developer", "content": "Be brief."},
		{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "unknown": 1, "user": "x"}`)
	prompt := len("system: Be brief.\nuser: Hi\nassistant: ")
	if len(a.Choices) != 1 || a.Choices[0].Message == nil {
		t.Fatalf("%+v", a)
	}
	c := a.Choices[0]
	if a.Object != "chat.completion" || a.Model != "m" || !strings.HasPrefix(a.ID, "chatcmpl-") || a.Created == 0 ||
		c.Message.Role != "assistant" || *c.Message.Content != "Hello" || *c.Finish != "stop" || c.LogProbs != nil ||
		a.Usage.Prompt != prompt || a.Usage.Completion != 5 || a.Usage.Total != prompt+5 {
		t.Errorf("%+v", a)
	}
}

func TestATextGoesOn(t *testing.T) {
	s := start(t, &parrot{says: "Hello", wait: ready}, plainTemplate, nil)
	for prompt, want := range map[string][]string{
		`"x"`: {"xHello"}, `["x", "yz"]`: {"xHello", "yzHello"}, `[120, 121]`: {"xyHello"},
		`[[120], [121, 122]]`: {"xHello", "yzHello"},
	} {
		body := fmt.Sprintf(`{"model": "base", "prompt": %s, "echo": true}`, prompt)
		a := s.whole("/v1/completions", body)
		var texts []string
		for i, c := range a.Choices {
			if texts = append(texts, c.Text); c.Index != i {
				t.Errorf("choice %d is at %d", c.Index, i)
			}
		}
		if a.Object != "text_completion" || !strings.HasPrefix(a.ID, "cmpl-") || !slices.Equal(texts, want) {
			t.Errorf("%s: %+v, want %q", prompt, a, want)
		}
		streamed, _ := joined(s.stream("/v1/completions", body[:len(body)-1]+`, "stream": true}`), len(want))
		if !slices.Equal(streamed, want) {
			t.Errorf("%s: streamed %q, want %q", prompt, streamed, want)
		}
	}
}

// TestAStreamIsTheWholeAnswer, whatever is asked for, and no piece of it has half a character.
func TestAStreamIsTheWholeAnswer(t *testing.T) {
	s := start(t, realEngine(t), plainTemplate, nil)
	const messages = `"messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 40`
	for _, tt := range []struct{ name, path, body, finish string }{
		{"greedy", "/v1/chat/completions", messages, "length"},
		{"drawn", "/v1/chat/completions", messages + `, "temperature": 1.5, "top_k": 50, "min_p": 0.01, "seed": 3`,
			"length"},
		{"two", "/v1/chat/completions", messages + `, "temperature": 1, "seed": -7, "n": 2`, "length"},
		{"probabilities", "/v1/chat/completions", messages + `, "logprobs": true, "top_logprobs": 3`, "length"},
		{"a text", "/v1/completions", `"prompt": "Once"`, "length"},
		{"two for each of two", "/v1/completions", `"prompt": ["a", "b"], "n": 2, "temperature": 2, "seed": 1`, "length"},
		{"echoed", "/v1/completions", `"prompt": "Öl", "echo": true, "max_tokens": 60`, "length"},
		{"its probabilities", "/v1/completions", `"prompt": "Once", "logprobs": 2`, "length"},
		{"to the end of the room", "/v1/completions", `"prompt": "Once", "max_tokens": 100000`, "length"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &site{s.Server, t, s.url}
			a := s.whole(tt.path, "{"+tt.body+"}")
			chunks := s.stream(tt.path, "{"+tt.body+`, "stream": true, "stream_options": {"include_usage": true}}`)
			texts, finish := joined(chunks, len(a.Choices))
			var tokens, streamed []string
			for i, c := range a.Choices {
				want := c.Text
				if c.Message != nil {
					want = *c.Message.Content
				}
				if want == "" || texts[i] != want || finish[i] != tt.finish || *c.Finish != tt.finish {
					t.Errorf("choice %d: %q, %s, streamed %q, %s", i, want, *c.Finish, texts[i], finish[i])
				}
				tokens = append(tokens, tokensOf(a, i)...)
			}
			for _, c := range chunks {
				if c.ID != chunks[0].ID || c.Created != chunks[0].Created || c.Object != chunks[0].Object {
					t.Errorf("chunks %+v and %+v", chunks[0], c)
				}
				for i, choice := range c.Choices {
					if streamed = append(streamed, tokensOf(c, i)...); !utf8.ValidString(choice.Text) {
						t.Errorf("a piece is %q", choice.Text)
					}
				}
			}
			if !slices.Equal(tokens, streamed) {
				t.Errorf("tokens %q, streamed %q", tokens, streamed)
			}
			last := chunks[len(chunks)-1]
			if last.Usage == nil || *last.Usage != *a.Usage || last.Choices == nil || len(last.Choices) != 0 {
				t.Errorf("the last chunk is %+v, want usage %+v", last, a.Usage)
			}
		})
	}
}

// tokensOf returns the tokens whose probabilities a choice has.
func tokensOf(a answer, i int) (tokens []string) {
	l := a.Choices[i].LogProbs
	if l == nil {
		return nil
	}
	for _, c := range l.Content {
		tokens = append(tokens, c.Token)
	}
	return append(tokens, l.Tokens...)
}

func TestChoicesDifferAndTheSeedDecides(t *testing.T) {
	s := start(t, realEngine(t), plainTemplate, nil)
	write := func(seed int) []string {
		a := s.whole("/v1/completions", fmt.Sprintf(`{"prompt": "x", "n": 2, "temperature": 1, "seed": %d}`, seed))
		return []string{a.Choices[0].Text, a.Choices[1].Text}
	}
	first := write(1)
	if first[0] == first[1] || !slices.Equal(first, write(1)) || first[1] != write(2)[0] {
		t.Errorf("%q, then %q; the next seed %q", first, write(1), write(2))
	}
}

func TestAStopIsNoPartOfTheAnswer(t *testing.T) {
	s := start(t, realEngine(t), plainTemplate, nil)
	whole := s.whole("/v1/completions", `{"prompt": "Once", "max_tokens": 60, "logprobs": 0}`).Choices[0]
	at := 0 // a character of the answer that was not there before, with the one before it
	runes := []rune(whole.Text)
	for i := 3; i < len(runes); i++ {
		if runes[i] > ' ' && runes[i] < 127 && runes[i] != '"' && runes[i] != '\\' && !slices.Contains(runes[:i], runes[i]) {
			at = i
			break
		}
	}
	if at == 0 {
		t.Fatalf("%q has no character to stop at", whole.Text)
	}
	stop := string(runes[at])
	for _, stops := range []string{fmt.Sprintf("%q", stop), fmt.Sprintf(`["never", %q]`, stop)} {
		for _, stream := range []bool{false, true} {
			body := fmt.Sprintf(`{"prompt": "Once", "max_tokens": 60, "logprobs": 0, "stop": %s, "stream": %v}`, stops, stream)
			status, b := s.post("/v1/completions", body)
			chunks := []answer{}
			if stream {
				chunks = events(t, b)
			} else {
				chunks = append(chunks, decode(t, b))
			}
			texts, finish := joined(chunks, 1)
			n := 0
			for _, c := range chunks {
				n += len(tokensOf(c, 0))
			}
			if want := string(runes[:at]); status != http.StatusOK || texts[0] != want || finish[0] != "stop" {
				t.Errorf("%s: status %d, %q, %s, want %q", body, status, texts[0], finish[0], want)
			}
			if n == 0 || n > len(whole.LogProbs.Tokens) {
				t.Errorf("%s: %d tokens", body, n)
			}
		}
	}
}

func TestProbabilitiesAreOfTheTokensOfTheText(t *testing.T) {
	s := start(t, realEngine(t), plainTemplate, nil)
	c := s.whole("/v1/chat/completions", `{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 30,
		"logprobs": true, "top_logprobs": 2}`).Choices[0]
	if len(c.LogProbs.Content) != 30 {
		t.Fatalf("%d tokens", len(c.LogProbs.Content))
	}
	var raw []byte
	for _, l := range c.LogProbs.Content {
		for _, b := range l.Bytes {
			raw = append(raw, byte(b))
		}
		if len(l.Top) != 2 || l.Top[0].Token != l.Token || l.LogProb > 0 {
			t.Errorf("%+v", l)
		}
	}
	if got := strings.ToValidUTF8(string(raw), ""); strings.ReplaceAll(*c.Message.Content, "\uFFFD", "") != got {
		t.Errorf("bytes %q, text %q", got, *c.Message.Content)
	}
	text := s.whole("/v1/completions", `{"prompt": "Hi", "max_tokens": 20, "logprobs": 0}`).Choices[0].LogProbs
	for i := range text.Tokens {
		if len(text.Top[i]) != 1 || text.Top[i][text.Tokens[i]] != text.Chosen[i] || text.Chosen[i] > 0 ||
			i > 0 && text.Offsets[i] < text.Offsets[i-1] {
			t.Errorf("token %d of %+v", i, text)
		}
	}
}

// recital is an engine that gives out what it is told to.
type recital struct {
	parrot
	tokens []generate.Token
}

func (r *recital) Generate(_ context.Context, q generate.Request) (*generate.Result, error) {
	for _, t := range r.tokens {
		if err := q.Token(t); err != nil {
			return nil, err
		}
	}
	return &generate.Result{Tokens: make([]int32, len(r.tokens)), Reason: generate.EOS}, nil
}

// TestProbabilitiesOfATextAreByToken: the chosen one is among them, and of parts of characters, which look alike, the
// likeliest is.
func TestProbabilitiesOfATextAreByToken(t *testing.T) {
	x := generate.Token{ID: 'x', Text: "x", LogProb: -5,
		Top: []generate.LogProb{{ID: 0xe2, LogProb: -0.5}, {ID: 'y', LogProb: -2}, {ID: 0xf0, LogProb: -3}}}
	s := start(t, &recital{tokens: []generate.Token{x}}, plainTemplate, nil)
	got := s.whole("/v1/completions", `{"prompt": "Hi", "logprobs": 3}`).Choices[0].LogProbs
	if want := map[string]float64{"\uFFFD": -0.5, "y": -2, "x": -5}; len(got.Top) != 1 || !maps.Equal(got.Top[0], want) {
		t.Errorf("%v, want %v", got.Top, want)
	}
}

// TestOffsetsAreOfTheText, also of tokens that are a part of a character, are left out, or wait for a stop.
func TestOffsetsAreOfTheText(t *testing.T) {
	for _, tt := range []struct {
		tokens string   // a byte each
		pieces []string // that they are given out in
		want   []int
	}{
		{"ab", []string{"a", "b"}, []int{0, 1}},
		{"a€b", []string{"a", "", "", "€", "b"}, []int{0, 1, 1, 1, 2}},
		{" ab", []string{"", "a", "b"}, []int{0, 0, 1}},
		{"aENx", []string{"a", "", "", "ENx"}, []int{0, 1, 2, 3}},
		{"\xe2a", []string{"", "\uFFFDa"}, []int{0, 1}},
	} {
		e := &recital{}
		for i, piece := range tt.pieces {
			e.tokens = append(e.tokens, generate.Token{ID: int32(tt.tokens[i]), Text: piece})
		}
		s := start(t, e, plainTemplate, nil)
		whole := s.whole("/v1/completions", `{"prompt": "x", "logprobs": 0}`).Choices[0].LogProbs.Offsets
		var streamed []int
		for _, c := range s.stream("/v1/completions", `{"prompt": "x", "logprobs": 0, "stream": true}`) {
			if l := c.Choices[0].LogProbs; l != nil {
				streamed = append(streamed, l.Offsets...)
			}
		}
		if !slices.Equal(whole, tt.want) || !slices.Equal(streamed, tt.want) {
			t.Errorf("%q: %d, streamed %d, want %d", tt.tokens, whole, streamed, tt.want)
		}
	}
}
