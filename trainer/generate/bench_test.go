package generate_test

import (
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/models"
)

var benchModel = flag.String("bench-model", "", "folder of the model of BenchmarkWriting; one of the test data without")

// BenchmarkWriting reports tokens a second: of a prompt of 512, and of texts that go on, one alone and eight together,
// after prompts of 32. The kernels are linked in.
func BenchmarkWriting(b *testing.B) {
	dir := *benchModel
	if dir == "" {
		dir = testdata.Shared(b, "data", "models", "stories15M")
	}
	tok := loadTokenizer(b, dir)
	for _, kernels := range []string{"none", "all,-npu_fused_attention_pre", "all"} {
		b.Run(kernels, func(b *testing.B) {
			m, err := models.LoadWith(dir, autograd.Heap{}, models.LoadOptions{Frozen: true})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Free()
			place(b, m, kernels)
			ids := random(m.Vocab(), min(512, m.Config.MaxPositionEmbeddings))
			b.Run("prompt", func(b *testing.B) { readPrompt(b, m, ids) })
			for name, texts := range map[string]int{"one": 1, "eight": 8} {
				b.Run(name, func(b *testing.B) {
					e, err := generate.NewEngine(m, tok, autograd.Heap{}, generate.EngineConfig{MaxSequences: texts})
					if err != nil {
						b.Fatal(err)
					}
					defer e.Close()
					together(b, e, ids[:32], texts, 4) // which compiles the graphs
					var took time.Duration
					for b.Loop() {
						took += together(b, e, ids[:32], texts, 32)
					}
					b.ReportMetric(float64(b.N*texts*31)/took.Seconds(), "tokens/s")
				})
			}
		})
	}
}

// readPrompt has a session read a prompt over and over.
func readPrompt(b *testing.B, m *models.Model, ids []int32) {
	s := generate.NewSession(m, autograd.Heap{}, 0)
	defer s.Close()
	read := func() {
		s.Truncate(0)
		if _, err := s.Feed(b.Context(), ids); err != nil {
			b.Fatal(err)
		}
	}
	read() // which compiles the graphs
	for b.Loop() {
		read()
	}
	b.ReportMetric(float64(b.N*len(ids))/b.Elapsed().Seconds(), "tokens/s")
}

// together has an engine write texts of n tokens, and returns the longest time that one took after its first token.
func together(b *testing.B, e *generate.Engine, prompt []int32, texts, n int) (decode time.Duration) {
	var wait sync.WaitGroup
	var mu sync.Mutex
	for range texts {
		wait.Go(func() {
			r, err := e.Generate(b.Context(), generate.Request{Prompt: prompt, Options: generate.Options{MaxNewTokens: n}})
			if err != nil {
				b.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			decode = max(decode, r.Decode)
		})
	}
	wait.Wait()
	return decode
}
