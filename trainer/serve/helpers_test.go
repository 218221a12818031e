package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/serve"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// byteTokenizer has token b for byte b, and 256 ends a text.
func byteTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	vocab, next := map[string]int{}, rune(256)
	for b := range 256 {
		// Bytes that print stand for themselves, the others for what follows Latin-1.
		r := rune(b)
		if !(r >= '!' && r <= '~' || r >= '¡' && r <= '¬' || r >= '®' && r <= 'ÿ') {
			r, next = next, next+1
		}
		vocab[string(r)] = b
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	b, err := json.Marshal(map[string]any{"version": "1.0",
		"added_tokens":  []any{map[string]any{"id": 256, "content": "</s>", "special": true}},
		"pre_tokenizer": byteLevel, "decoder": byteLevel,
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}}})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse("tokenizer.json", b)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// parrot is an engine that says what it is told to, a byte at a time, and then what it is told to fail with.
type parrot struct {
	says    string
	fails   error
	wait    chan struct{} // before each text, unless it is nil
	mu      sync.Mutex
	running int
}

func (p *parrot) Limit() int { return 4096 }

func (p *parrot) Stats() generate.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return generate.Stats{Running: p.running}
}

func (p *parrot) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running += n
}

func (p *parrot) Generate(ctx context.Context, q generate.Request) (*generate.Result, error) {
	p.add(1)
	defer p.add(-1)
	r := &generate.Result{PromptTokens: len(q.Prompt), Reason: generate.EOS}
	select {
	case <-p.wait:
	case <-ctx.Done():
		r.Reason = generate.Interrupted
		return r, nil
	}
	for _, b := range []byte(p.says) {
		r.Tokens = append(r.Tokens, int32(b))
		if err := q.Token(generate.Token{ID: int32(b), Text: string(rune(b))}); err != nil {
			return nil, err
		}
	}
	if p.fails != nil {
		return nil, p.fails
	}
	return r, nil
}

// ready is closed, for a parrot that does not wait.
var ready = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// realEngine is one with a small model of random weights, and adapters of such beside it.
func realEngine(t *testing.T, adapters ...string) *generate.Engine {
	t.Helper()
	return engineWith(t, smallModel, generate.EngineConfig{}, adapters...)
}

func engineWith(t *testing.T, model string, c generate.EngineConfig, adapters ...string) *generate.Engine {
	t.Helper()
	m, err := models.New([]byte(model), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	for i, name := range adapters {
		if err := m.AddVariant(name, adapterFolder(t, 2+i)); err != nil {
			t.Fatal(err)
		}
	}
	e, err := generate.NewEngine(m, byteTokenizer(t), autograd.Heap{}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	t.Cleanup(e.Close)
	return e
}

// plainTemplate writes no tools, toolTemplate does.
const (
	plainTemplate = `{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}`
	toolTemplate = `{% if tools %}Tools: {{ tools | tojson }}
{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}`
)

func template(t testing.TB, text string) *chat.Template {
	t.Helper()
	parsed, err := chat.Parse("template", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// site is a server with a model "m", which has a template, and a model "base", which has none.
type site struct {
	*serve.Server
	t   *testing.T
	url string
}

func start(t *testing.T, e serve.Engine, templateText string, change func(*serve.Config)) *site {
	t.Helper()
	c := serve.Config{MaxBody: 1 << 16, MaxTexts: 8, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&c)
	}
	s, err := serve.New(c)
	if err != nil {
		t.Fatal(err)
	}
	tok := byteTokenizer(t)
	m := serve.Model{Name: "m", Engine: e, Tokenizer: tok, Template: template(t, templateText), EOS: []int32{256},
		Sampling: generate.Sampling{TopP: 1}}
	base := m
	base.Name, base.Template = "base", nil
	s.Ready([]serve.Model{m, base})
	listener := httptest.NewServer(s)
	t.Cleanup(listener.Close)
	return &site{s, t, listener.URL}
}

// post returns the status and the body of an answer.
func (s *site) post(path, body string) (int, []byte) {
	s.t.Helper()
	r, err := http.Post(s.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.StatusCode, b
}

// answer is that of either kind, whole or a chunk.
type answer struct {
	ID, Object, Model string
	Created           int64
	Choices           []struct {
		Index    int
		Text     string
		Message  *message
		Delta    *message
		Finish   *string `json:"finish_reason"`
		LogProbs *struct {
			Content []struct {
				Token   string
				LogProb float64
				Bytes   []int
				Top     []struct{ Token string } `json:"top_logprobs"`
			}
			Tokens  []string
			Chosen  []float64            `json:"token_logprobs"`
			Top     []map[string]float64 `json:"top_logprobs"`
			Offsets []int                `json:"text_offset"`
		}
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
	Error *struct {
		Message, Type, Param, Code string
	}
}

type message struct {
	Role    string
	Content *string
	Calls   []struct {
		Index    int
		ID, Type string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

func decode(t *testing.T, b []byte) (a answer) {
	t.Helper()
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return a
}

// whole returns an answer that must be a good one.
func (s *site) whole(path, body string) answer {
	s.t.Helper()
	status, b := s.post(path, body)
	if status != http.StatusOK {
		s.t.Fatalf("status %d\n%s", status, b)
	}
	return decode(s.t, b)
}

// stream returns the chunks of a stream that must end as one should.
func (s *site) stream(path, body string) (chunks []answer) {
	s.t.Helper()
	status, b := s.post(path, body)
	if status != http.StatusOK || !bytes.HasSuffix(b, []byte("data: [DONE]\n\n")) {
		s.t.Fatalf("status %d\n%s", status, b)
	}
	return events(s.t, b)
}

func events(t *testing.T, b []byte) (chunks []answer) {
	t.Helper()
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok && lines.Text() != "" {
			t.Fatalf("a line of a stream is %q", lines.Text())
		}
		if ok && data != "[DONE]" {
			chunks = append(chunks, decode(t, []byte(data)))
		}
	}
	return chunks
}

// joined returns the text of each choice of a stream, and why it ended.
func joined(chunks []answer, choices int) (texts, finish []string) {
	texts, finish = make([]string, choices), make([]string, choices)
	for _, a := range chunks {
		for _, c := range a.Choices {
			texts[c.Index] += c.Text
			if c.Delta != nil && c.Delta.Content != nil {
				texts[c.Index] += *c.Delta.Content
			}
			if c.Finish != nil {
				finish[c.Index] += *c.Finish
			}
		}
	}
	return texts, finish
}

func newListener(t *testing.T, h http.Handler) (url string) {
	l := httptest.NewServer(h)
	t.Cleanup(l.Close)
	return l.URL
}
