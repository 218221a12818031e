package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/serve"
)

// strict is an engine that fails at requests that a server must not hand on.
type strict struct{ parrot }

func (s *strict) Generate(ctx context.Context, q generate.Request) (*generate.Result, error) {
	if len(q.Prompt) == 0 || len(q.Prompt) > s.Limit() {
		return nil, fmt.Errorf("a prompt of %d tokens", len(q.Prompt))
	}
	for _, id := range q.Prompt {
		if id < 0 || id > 256 {
			return nil, fmt.Errorf("a prompt with token %d", id)
		}
	}
	if err := q.Options.Sampling.Validate(); err != nil {
		return nil, err
	}
	if q.Options.MaxNewTokens < 0 || len(q.Options.Stop) > 16 || q.LogProbs < -1 || q.LogProbs > 20 {
		return nil, fmt.Errorf("%d tokens, %d stops, %d probabilities", q.Options.MaxNewTokens, len(q.Options.Stop),
			q.LogProbs)
	}
	return s.parrot.Generate(ctx, q)
}

// FuzzRequests: whatever a client sends, it gets an answer, or an error of its own in the form of the API.
func FuzzRequests(f *testing.F) {
	for _, body := range []string{
		`{"messages": [{"role": "user", "content": "Hi"}], "stream": true, "logprobs": true, "top_logprobs": 2}`,
		`{"messages": [{"role": "user", "content": [{"type": "text", "text": "\ud800"}]}], "n": 2, "seed": -1}`,
		`{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "1",
			"type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
			{"role": "tool", "tool_call_id": "1", "content": "2"}],
			"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
			"tool_choice": "auto"}`,
		`{"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"enable_thinking": false, "messages": 1},
			"stop": ["a", "b"], "max_completion_tokens": 3, "response_format": {"type": "text"}}`,
		`{"messages": [{}], "audio": {}, "functions": []}`, `{`, `null`, `[]`, `{"messages": null, "n": 1e3}`, "\xff",
	} {
		f.Add(true, []byte(body))
	}
	for _, body := range []string{
		`{"prompt": "x", "echo": true, "max_tokens": 3, "temperature": 1e-9, "top_p": 0.5, "top_k": -1, "min_p": 1}`,
		`{"prompt": ["x", "y"], "logprobs": 3, "stream": true, "stream_options": {"include_usage": true}}`,
		`{"prompt": [1, 2]}`, `{"prompt": [[1], [2, 257]]}`, `{"prompt": []}`, `{"prompt": [[]]}`, `{"prompt": ""}`,
		`{"prompt": "x", "n": 17}`, `{"prompt": "x", "suffix": "y"}`, `{"prompt": "x", "best_of": 2}`,
		`{"prompt": "x", "max_tokens": 9223372036854775807}`, `{"prompt": "x", "repetition_penalty": 1e308}`,
		`{"model": "other", "prompt": "x"}`, `{"prompt": null, "stop": null}`, `{"prompt": "x", "seed": 1.5}`,
	} {
		f.Add(false, []byte(body))
	}
	s, err := serve.New(serve.Config{MaxBody: 1 << 16, MaxTexts: 8, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	s.Ready([]serve.Model{{Name: "m", Engine: &strict{parrot{says: "Hello <tool_call>", wait: ready}},
		Tokenizer: byteTokenizer(f), Template: template(f, toolTemplate), EOS: []int32{256},
		Sampling: generate.Sampling{TopP: 1}}})
	f.Fuzz(func(t *testing.T, chat bool, body []byte) {
		path := "/v1/completions"
		if chat {
			path = "/v1/chat/completions"
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("POST", path, bytes.NewReader(body)))
		got := w.Body.Bytes()
		if w.Header().Get("Content-Type") == "text/event-stream" {
			if !bytes.HasSuffix(got, []byte("data: [DONE]\n\n")) {
				t.Fatalf("a stream ends with %q", got[max(0, len(got)-200):])
			}
			events(t, got)
			return
		}
		var a struct {
			Choices []any
			Error   struct{ Message, Type string }
		}
		if err := json.Unmarshal(got, &a); err != nil {
			t.Fatalf("status %d: %v\n%s", w.Code, err, got)
		}
		switch {
		case w.Code == 200 && len(a.Choices) > 0:
		case w.Code >= 400 && w.Code < 500 && a.Error.Message != "" && strings.HasSuffix(a.Error.Type, "_error"):
		default:
			t.Fatalf("status %d: %s", w.Code, got)
		}
	})
}
