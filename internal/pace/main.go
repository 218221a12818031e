// Pace measures how fast a model folder writes without kernels, in tokens a second: reading a prompt of 512 tokens,
// one sequence after that, and eight sequences at once from prompts of 32. It prints the medians as one JSON object:
//
//	go run ./internal/pace -model DIR -threads 2 -rounds 3
//
// with the bytes of the weights that each token reads, and of the keys and values before it, on average and if all
// layers attend to all of them, and the bandwidth that both come to with one sequence. Nothing else may run meanwhile.
// A first round warms up and does not count.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/internal/os/hugepage"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// What is measured.
const (
	prompt, after   = 512, 64 // tokens read, and written after that
	texts, each     = 8, 32   // texts at once, and tokens of the prompt of each
	together        = 32      // tokens that all of them write at the same time
	positions, seed = 1024, 1
)

// paces are tokens a second.
type paces struct {
	Prefill   float64 `json:"prefill_tok_s"`
	Decode    float64 `json:"decode_tok_s"`
	Together  float64 `json:"decode8_tok_s"`
	Bytes     int     `json:"weight_bytes_per_token"`
	Cache     int     `json:"cache_bytes_per_token"`
	Bandwidth float64 `json:"decode_bytes_per_s"`
}

func main() {
	model := flag.String("model", "", "the model `folder`")
	threads := flag.Int("threads", 0, "`threads` to compute with; 0 for all cores")
	rounds := flag.Int("rounds", 3, "`rounds` that count")
	flag.Parse()
	p, err := measure(context.Background(), *model, *threads, *rounds)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pace:", err)
		os.Exit(1)
	}
}

// measure returns the medians of some rounds.
func measure(ctx context.Context, folder string, threads, rounds int) (p paces, err error) {
	if folder == "" || rounds < 1 {
		return p, errors.New("give -model, and -rounds of at least 1")
	}
	simd.SetThreads(threads)
	tok, err := tokenizer.Load(folder)
	if err != nil {
		return p, err
	}
	var mem hugepage.Memory
	m, err := models.LoadWith(folder, &mem, models.LoadOptions{Frozen: true})
	if err != nil {
		return p, err
	}
	if m.Config.MaxPositionEmbeddings < positions {
		return p, fmt.Errorf("%s has %d positions, and this needs %d", folder, m.Config.MaxPositionEmbeddings, positions)
	}
	s := generate.NewSession(m, &mem, positions)
	defer s.Close()
	e, err := generate.NewEngine(m, tok, &mem, generate.EngineConfig{MaxSequences: texts, Limit: positions})
	if err != nil {
		return p, err
	}
	defer e.Close()
	r := runner{tok: tok, random: rand.New(rand.NewPCG(seed, 0)), vocab: min(m.Vocab(), tok.VocabSize())}
	var all [3][]float64
	for round := range rounds + 1 {
		one, err := r.alone(ctx, s)
		if err != nil {
			return p, err
		}
		eight, err := r.together(ctx, e)
		if err != nil {
			return p, err
		}
		for i, v := range []float64{one.PrefillRate(), one.DecodeRate(), eight} {
			if round > 0 {
				all[i] = append(all[i], v)
			}
		}
	}
	c := m.Config
	p = paces{Prefill: median(all[0]), Decode: median(all[1]), Together: median(all[2]), Bytes: read(m),
		Cache: 2 * 4 * c.NumHiddenLayers * c.NumKeyValueHeads * c.HeadDim * (prompt + after/2)}
	p.Bandwidth = p.Decode * float64(p.Bytes+p.Cache)
	return p, nil
}

// read returns the bytes of the matrices that every token reads: all but an embedding that is no head.
func read(m *models.Model) (bytes int) {
	seen := map[*byte]bool{}
	for _, l := range m.Linears() {
		w := l.Weight
		if at := &w.Tensor.Data[0]; !seen[at] {
			seen[at] = true
			bytes += len(w.Tensor.Data) + 4*len(w.Scale)
		}
	}
	return bytes
}

// median returns that of an odd number, and of an even one the higher of the two in the middle.
func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// runner asks for texts.
type runner struct {
	tok    *tokenizer.Tokenizer
	random *rand.Rand
	vocab  int
}

// prompt returns random tokens.
func (r *runner) prompt(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(r.random.IntN(r.vocab))
	}
	return ids
}

// alone writes one text.
func (r *runner) alone(ctx context.Context, s *generate.Session) (*generate.Result, error) {
	return generate.Run(ctx, s, r.tok, r.prompt(prompt), generate.Options{MaxNewTokens: after + 1})
}

// together returns the tokens a second of all texts, while all of them go on: if one of a small model has ended
// before the last began, it has them written once more.
func (r *runner) together(ctx context.Context, e *generate.Engine) (rate float64, err error) {
	for rate == 0 && err == nil {
		rate, err = r.atOnce(ctx, e)
	}
	return rate, err
}

// atOnce is together, or 0 if there was no moment with all texts.
func (r *runner) atOnce(ctx context.Context, e *generate.Engine) (float64, error) {
	var running sync.WaitGroup
	errs := make([]error, texts)
	var written, first int // by all together, and when the last of them began
	var begun int
	var start, end clock.Moment
	for i := range texts {
		q := generate.Request{Prompt: r.prompt(each), Options: generate.Options{MaxNewTokens: together + texts}}
		mine := 0
		q.Token = func(generate.Token) error { // from the engine's goroutine
			written++
			if mine++; mine == 1 {
				if begun++; begun == texts && end == 0 {
					start, first = clock.Now(), written
				}
			}
			if mine == together+texts && end == 0 {
				end, written = clock.Now(), written-first
				first = written
			}
			return nil
		}
		running.Go(func() { _, errs[i] = e.Generate(ctx, q) })
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	if start >= end {
		return 0, nil
	}
	return float64(first) / end.Sub(start).Seconds(), nil
}

var _ core.Memory = (*hugepage.Memory)(nil)
