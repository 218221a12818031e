package serve_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/serve"
)

const smallModel = `{"model_type": "llama", "vocab_size": 257, "hidden_size": 16, "intermediate_size": 32,
	"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.5}`

// adapterFolder has one of random numbers for the small model.
func adapterFolder(t *testing.T, rank int) (dir string) {
	t.Helper()
	m, err := models.NewWith([]byte(smallModel), autograd.Heap{}, models.LoadOptions{LoRA: lora.Config{Rank: rank}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	random := rand.New(rand.NewPCG(uint64(rank), 0))
	for _, p := range m.Trainable() {
		for i := range p.Tensor.Float32s() {
			p.Tensor.Float32s()[i] = 0.5 * float32(random.NormFloat64())
		}
	}
	saved, err := m.Saved()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, saved.ConfigFile), saved.Config, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(filepath.Join(dir, saved.WeightsFile), saved.Weights, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAdaptersOfOneEngineAnswerToTheirNames, at the same time, each as the engine does with it; models, answers and
// metrics name them.
func TestAdaptersOfOneEngineAnswerToTheirNames(t *testing.T) {
	e, tok := realEngine(t, "polite", "rude"), byteTokenizer(t)
	server, err := serve.New(serve.Config{MaxBody: 1 << 16, MaxTexts: 64, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var served []serve.Model
	want := map[string]string{}
	for _, name := range []string{"base", "polite", "rude"} {
		m := serve.Model{Name: name, Engine: e, Tokenizer: tok, Sampling: generate.Sampling{TopP: 1}}
		if name != "base" {
			m.Adapter = name
		}
		served = append(served, m)
		r, err := e.Generate(t.Context(), generate.Request{Prompt: tok.Encode("hello", true), Adapter: m.Adapter,
			Options: generate.Options{MaxNewTokens: 20}})
		if err != nil {
			t.Fatal(err)
		}
		want[name] = r.Text
	}
	if want["base"] == want["polite"] || want["polite"] == want["rude"] || want["base"] == want["rude"] {
		t.Fatalf("the adapters change nothing: %q", want)
	}
	server.Ready(served)
	s := &site{server, t, newListener(t, server)}
	var all sync.WaitGroup
	for i := range 24 {
		name := served[i%3].Name
		all.Go(func() {
			status, b := s.post("/v1/completions", fmt.Sprintf(`{"model": %q, "prompt": "hello", "max_tokens": 20}`, name))
			if a := decode(t, b); status != 200 || a.Model != name || a.Choices[0].Text != want[name] {
				t.Errorf("%s: status %d, %s, want %q", name, status, b, want[name])
			}
		})
	}
	all.Wait()
	if status, b := s.post("/v1/completions", `{"model": "kind", "prompt": "x"}`); status != 404 ||
		!strings.Contains(string(b), `there is no model \"kind\" here; there is [\"base\" \"polite\" \"rude\"]`) {
		t.Errorf("a model that is not there: status %d, %s", status, b)
	}
	var list struct{ Data []struct{ ID, Parent string } }
	if err := json.Unmarshal([]byte(s.get("/v1/models")), &list); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(list.Data); got != "[{base } {polite base} {rude base}]" {
		t.Errorf("the models are %s", got)
	}
	metrics := s.get("/metrics")
	for name := range want {
		for _, line := range []string{`tune_texts_total{model=%q,reason="length"} 8`,
			`tune_text_tokens_total{model=%q} 160`} {
			if line = fmt.Sprintf(line, name); !strings.Contains(metrics, line+"\n") {
				t.Errorf("there is no %s in\n%s", line, metrics)
			}
		}
	}
}

// get returns the body of a good answer.
func (s *site) get(path string) string {
	s.t.Helper()
	r, err := http.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: status %d, %v", path, r.StatusCode, err)
	}
	return string(b)
}
