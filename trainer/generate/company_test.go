package generate_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/plugins/linked"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// written is a text and what came with its tokens.
type written struct {
	tokens   []int32
	logProbs []float64
}

// write asks an engine for a text of n tokens; left is called after each token.
func write(ctx context.Context, e *generate.Engine, prompt []int32, n int, each func()) (w written, err error) {
	return writeAs(ctx, e, "", prompt, n, each)
}

// writeAs does so with an adapter.
func writeAs(ctx context.Context, e *generate.Engine, adapter string, prompt []int32, n int,
	each func()) (w written, err error) {
	r, err := e.Generate(ctx, generate.Request{Prompt: prompt, Options: generate.Options{MaxNewTokens: n}, LogProbs: -1,
		Adapter: adapter,
		Token: func(k generate.Token) error {
			w.logProbs = append(w.logProbs, k.LogProb)
			if each != nil {
				each()
			}
			return nil
		}})
	if r != nil {
		w.tokens = r.Tokens
	}
	return w, err
}

// asked are prompts of different lengths, some of which begin as others do, and of how many tokens the texts are.
func asked(vocab int) (prompts [][]int32, n []int) {
	long := random(vocab, 40)
	for i, length := range []int{1, 5, 40, 37, 20, 33, 16, 17} {
		p := slices.Clone(long[:length])
		if i%2 == 1 {
			p[length-1] = (p[length-1] + 1) % int32(vocab)
		}
		prompts, n = append(prompts, p), append(n, 6+3*i)
	}
	return prompts, n
}

func engineOf(t *testing.T, m *models.Model, tok *tokenizer.Tokenizer, c generate.EngineConfig) *generate.Engine {
	t.Helper()
	e, err := generate.NewEngine(m, tok, autograd.Heap{}, c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestTextIsTheSameInCompany: eight texts of different lengths, of which some begin alike, and one that somebody
// leaves in the middle, in blocks of several sizes, are those of a session.
func TestTextIsTheSameInCompany(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(testdata.Shared(t, "golden", "models"), "*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("%d reference models, %v", len(folders), err)
	}
	tok := loadTokenizer(t, testdata.Shared(t, "data", "models", "stories15M"))
	for _, dir := range append(folders, testdata.Shared(t, "data", "models", "stories15M")) {
		sameInCompany(t, filepath.Base(dir), load(t, dir), tok, pagedKernels)
	}
}

// TestTextOfEveryFamilyIsTheSameInCompany has what no reference model has: sinks, capped scores, windows in some
// layers, layers without positions, and latent attention, in a cache of blocks.
func TestTextOfEveryFamilyIsTheSameInCompany(t *testing.T) {
	tok := loadTokenizer(t, testdata.Shared(t, "data", "models", "stories15M"))
	for _, f := range models.Families() {
		c := f.Small()
		c["max_position_embeddings"] = 128
		if _, has := c["original_max_position_embeddings"]; has {
			c["original_max_position_embeddings"] = 128 // a text has no more
		}
		m := ofRandom(t, c)
		sameInCompany(t, f.Type, m, tok, placeKernels)
	}
}

// sameInCompany compares texts of an engine with those of sessions, plain and with what kernels places.
func sameInCompany(t *testing.T, name string, m *models.Model, tok *tokenizer.Tokenizer,
	place func(*testing.T, *models.Model, string) *core.Report) {
	prompts, n := asked(m.Vocab())
	s := generate.NewSession(m, autograd.Heap{}, 0)
	var want [][]int32
	for i, p := range prompts {
		r, err := generate.Run(t.Context(), s, tok, p, generate.Options{MaxNewTokens: n[i]})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, r.Tokens)
	}
	s.Close()
	for i := range 6 {
		size, kernels := []int{1, 16, 128}[i%3], []string{"none", "all"}[i/3]
		t.Run(fmt.Sprintf("%s blocks of %d, %s", name, size, kernels), func(t *testing.T) {
			e := engineOf(t, m, tok, generate.EngineConfig{BlockSize: size, Limit: 128})
			if kernels == "all" {
				defer place(t, m, kernels).Restore()
			}
			defer e.Close()
			inCompany(t, e, prompts, n, want, size)
		})
	}
}

// inCompany asks for all texts at once, and for one of them again.
func inCompany(t *testing.T, e *generate.Engine, prompts [][]int32, n []int, want [][]int32, size int) {
	var all sync.WaitGroup
	all.Go(func() { leave(t, e, prompts[2]) })
	for i, p := range prompts {
		all.Go(func() {
			if w, err := write(t.Context(), e, p, n[i], nil); err != nil || !slices.Equal(w.tokens, want[i]) {
				t.Errorf("text %d: %v, %v; alone %v", i, w.tokens, err, want[i])
			}
		})
	}
	all.Wait()
	before := e.Stats()
	if before.Running+before.Waiting+before.BlocksUsed != 0 {
		t.Errorf("afterwards: %+v", before)
	}
	if w, err := write(t.Context(), e, prompts[2], n[2], nil); err != nil || !slices.Equal(w.tokens, want[2]) {
		t.Errorf("once more: %v, %v; alone %v", w.tokens, err, want[2])
	}
	if hits := e.Stats().PrefixHits - before.PrefixHits; int(hits) != (len(prompts[2])-1)/size*size {
		t.Errorf("%d of its %d tokens were in the cache", hits, len(prompts[2]))
	}
}

// placeKernels places kernels of the project where they fit.
func placeKernels(t *testing.T, m *models.Model, selection string) *core.Report {
	t.Helper()
	reg := core.NewRegistry()
	for _, k := range linked.Kernels() {
		if err := reg.Register(k); err != nil {
			t.Fatal(err)
		}
	}
	report, err := core.ApplyDefaultKernels(t.Context(), m, reg, selection, core.Inference())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// pagedKernels does so, and makes sure that a cache has them.
func pagedKernels(t *testing.T, m *models.Model, selection string) *core.Report {
	t.Helper()
	report := placeKernels(t, m, selection)
	placed := map[core.Op]int{}
	for _, s := range m.Sites() {
		if s.Hook.Kernel() != nil {
			placed[s.Op]++
		}
	}
	if n := m.Config.NumHiddenLayers; placed[core.PagedAttention] != n || placed[core.ReshapeAndCache] != n {
		t.Fatalf("of %d layers, %v have kernels", n, placed)
	}
	return report
}

// leave asks for a text and goes away after some tokens.
func leave(t *testing.T, e *generate.Engine, prompt []int32) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := 4
	if _, err := write(ctx, e, prompt, 80, func() {
		if left--; left == 0 {
			cancel()
		}
	}); err != nil {
		t.Error(err)
	}
}

// TestLogitsHaveTheSameBitsInCompany holds for up to eight texts whose prompts are cut as they are alone.
func TestLogitsHaveTheSameBitsInCompany(t *testing.T) {
	for _, kernels := range []string{"none", "npu_fused_paged_attention"} {
		t.Run(kernels, func(t *testing.T) { sameBitsInCompany(t, kernels) })
	}
}

func sameBitsInCompany(t *testing.T, kernels string) {
	tok := loadTokenizer(t, testdata.Shared(t, "data", "models", "stories15M"))
	m := load(t, testdata.Shared(t, "data", "models", "stories15M"))
	engine := func(size int) (*generate.Engine, func()) {
		e := engineOf(t, m, tok, generate.EngineConfig{BlockSize: size})
		if kernels == "none" {
			return e, e.Close
		}
		report := pagedKernels(t, m, kernels)
		return e, func() {
			e.Close()
			report.Restore()
		}
	}
	alone := func(prompt []int32, n, size int) written {
		e, end := engine(size)
		defer end()
		w, err := write(t.Context(), e, prompt, n, nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	prompts, n := asked(m.Vocab())
	var want []written
	for i, p := range prompts {
		want = append(want, alone(p, n[i], []int{1, 7, 16}[i%3]))
	}
	e, end := engine(128)
	defer end()
	var all sync.WaitGroup
	for i, p := range prompts {
		all.Go(func() {
			if w, err := write(t.Context(), e, p, n[i], nil); err != nil || !slices.Equal(w.logProbs, want[i].logProbs) {
				t.Errorf("text %d: %v, %v; alone %v", i, w.logProbs, err, want[i].logProbs)
			}
		})
	}
	all.Wait()
}

// TestALongPromptHasTheSameBitsInCompany: it is read in smaller pieces while others write.
func TestALongPromptHasTheSameBitsInCompany(t *testing.T) {
	tok := loadTokenizer(t, testdata.Shared(t, "data", "models", "stories15M"))
	for _, name := range []string{"qwen3-tied", "qwen3-moe", "glm4-0414", "glm4-moe-air"} {
		m := load(t, testdata.Shared(t, "golden", "models", name))
		for _, length := range []int{512, 513, 1200} {
			prompt := random(m.Vocab(), length)
			e := engineOf(t, m, tok, generate.EngineConfig{Limit: 1400})
			alone, err := write(t.Context(), e, prompt, 4, nil)
			e.Close()
			if err != nil {
				t.Fatal(err)
			}
			e = engineOf(t, m, tok, generate.EngineConfig{Limit: 1400})
			ctx, leave := context.WithCancel(t.Context())
			begun, other := make(chan struct{}), sync.WaitGroup{}
			other.Go(func() {
				first := sync.OnceFunc(func() { close(begun) })
				if _, err := write(ctx, e, prompt[:1], 0, first); err != nil {
					t.Error(err)
				}
			})
			<-begun
			got, err := write(t.Context(), e, prompt, 4, nil)
			leave()
			other.Wait()
			e.Close()
			if err != nil || !slices.Equal(got.logProbs, alone.logProbs) {
				t.Errorf("%s, %d tokens: %v, %v; alone %v", name, length, got.logProbs, err, alone.logProbs)
			}
		}
	}
}

// TestNothingIsLostWhereBlocksRunOut: the youngest text waits, and is what it would have been.
func TestNothingIsLostWhereBlocksRunOut(t *testing.T) {
	e, tok := newEngine(t, generate.EngineConfig{Blocks: 10, BlockSize: 4})
	s, _ := storyteller(t)
	if e.Limit() != 40 {
		t.Errorf("room for %d tokens", e.Limit())
	}
	var all sync.WaitGroup
	var prompts, reused atomic.Int64
	for i, prompt := range []string{"Once upon a time", "Lily and Tom went to", "The dog", "A", "Once a day"} {
		o := generate.Options{MaxNewTokens: 24 + i}
		want := run(t, s, tok, prompt, o)
		all.Go(func() {
			r, err := e.Generate(t.Context(), generate.Request{Prompt: tok.Encode(prompt, true), Options: o})
			if err != nil || r.Text != want.Text || r.Reason != want.Reason {
				t.Errorf("%q: %+v, %v; want %q", prompt, r, err, want.Text)
			}
			prompts.Add(int64(r.PromptTokens))
			reused.Add(int64(r.Reused))
		})
	}
	all.Wait()
	if st := e.Stats(); st.BlocksUsed != 0 || st.BlocksTotal != 10 || st.Waiting != 0 || st.Prompt != prompts.Load() ||
		st.PrefixHits != reused.Load() {
		t.Errorf("afterwards: %+v; %d tokens of prompts, %d of them in the cache", st, prompts.Load(), reused.Load())
	}
}

// TestABadPromptHarmsNobody: it is refused before it could fail a step of others.
func TestABadPromptHarmsNobody(t *testing.T) {
	e, _ := newEngine(t, generate.EngineConfig{})
	for _, id := range []int32{-1, 512} {
		if _, err := e.Generate(t.Context(), generate.Request{Prompt: []int32{1, id}}); err == nil {
			t.Errorf("token %d was taken", id)
		}
	}
}

// TestALongPromptAndShortOnesDoNotWaitForEachOther: the short ones come while the long one is read.
func TestALongPromptAndShortOnesDoNotWaitForEachOther(t *testing.T) {
	tok := loadTokenizer(t, testdata.Shared(t, "data", "models", "stories260K"))
	m := ofRandom(t, map[string]any{"model_type": "llama", "vocab_size": 512, "hidden_size": 16, "intermediate_size": 32,
		"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 8192})
	const short = 60
	e := engineOf(t, m, tok, generate.EngineConfig{MaxSequences: short + 2})
	defer e.Close()
	var all sync.WaitGroup
	var first []int // whose first tokens have come; 0 is the long one
	ask := func(i, tokens int) {
		all.Go(func() {
			if _, err := write(t.Context(), e, random(512, tokens), 1, func() { first = append(first, i) }); err != nil {
				t.Error(err)
			}
		})
	}
	enough, asked := errors.New("all have come"), 0
	_, err := e.Generate(t.Context(), generate.Request{Prompt: []int32{1}, Token: func(generate.Token) error {
		switch {
		case asked == 0:
			ask(0, 5120)
			asked++
		case asked == 1 && e.Stats().Running == 2:
			for ; asked <= short; asked++ {
				ask(asked, 20)
			}
		case len(first) == 0:
			time.Sleep(10 * time.Millisecond) // the engine waits for the requests, on a busy machine, too
		case len(first) == short+1:
			return enough
		}
		return nil
	}})
	all.Wait()
	if at := slices.Index(first, 0); !errors.Is(err, enough) || at <= 0 || at >= short {
		t.Errorf("%v; the long one is number %d of %v", err, at, first)
	}
}

// TestWhatTextsBeginWithIsReadOnce, also if they are asked for at the same time.
func TestWhatTextsBeginWithIsReadOnce(t *testing.T) {
	e, _ := newEngine(t, generate.EngineConfig{})
	prompt := random(512, 300)
	var all sync.WaitGroup
	var texts [4][]int32
	_, err := e.Generate(t.Context(), generate.Request{Prompt: []int32{1}, Options: generate.Options{MaxNewTokens: 1},
		Token: func(generate.Token) error {
			for i := range texts {
				all.Go(func() {
					w, err := write(t.Context(), e, prompt, 5, nil)
					if err != nil {
						t.Error(err)
					}
					texts[i] = w.tokens
				})
			}
			for e.Stats().Waiting < len(texts) {
				time.Sleep(time.Millisecond)
			}
			return nil
		}})
	all.Wait()
	if hits, want := e.Stats().PrefixHits, int64(len(texts)-1)*(299/16*16); err != nil || hits != want {
		t.Errorf("%v, %d tokens were in the cache, want %d", err, hits, want)
	}
	for _, tokens := range texts {
		if len(tokens) != 5 || !slices.Equal(tokens, texts[0]) {
			t.Errorf("%v and %v", tokens, texts[0])
		}
	}
}
