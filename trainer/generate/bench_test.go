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
		m, err := models.LoadWith(dir, autograd.Heap{}, models.LoadOptions{Frozen: true})
		if err != nil {
			b.Fatal(err)
		}
		place(b, m, kernels)
		ids := random(m.Vocab(), min(512, m.Config.MaxPositionEmbeddings))
		s := generate.NewSession(m, autograd.Heap{}, 0)
		feed := func(b *testing.B) {
			s.Truncate(0)
			if _, err := s.Feed(b.Context(), ids); err != nil {
				b.Fatal(err)
			}
		}
		feed(b)
		b.Run(kernels+"/prompt", func(b *testing.B) {
			for b.Loop() {
				feed(b)
			}
			b.ReportMetric(float64(b.N*len(ids))/b.Elapsed().Seconds(), "tokens/s")
		})
		s.Close()
		for _, texts := range []int{1, 8} {
			e, err := generate.NewEngine(m, tok, autograd.Heap{}, generate.EngineConfig{MaxSequences: texts})
			if err != nil {
				b.Fatal(err)
			}
			together(b, e, ids[:32], texts, 4) // which compiles the graphs
			b.Run(kernels+"/"+[]string{1: "one", 8: "eight"}[texts], func(b *testing.B) {
				var took time.Duration
				for b.Loop() {
					took += together(b, e, ids[:32], texts, 32)
				}
				b.ReportMetric(float64(b.N*texts*31)/took.Seconds(), "tokens/s")
			})
			e.Close()
		}
		m.Free()
	}
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
