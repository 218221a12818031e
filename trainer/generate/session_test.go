package generate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/plugins/linked"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// whole returns the logits after every token, [T, V], of a forward pass over all of them.
func whole(t *testing.T, m *models.Model, ids []int32) []float32 {
	t.Helper()
	rows, err := data.Pack([][]int32{ids}, len(ids), 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := nn.NewContext(autograd.Heap{}, 1, len(ids), len(ids))
	if err != nil {
		t.Fatal(err)
	}
	out := m.Forward(c)
	out.Logits.Keep()
	p, err := m.Compile(c, out.Loss, true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for b := range data.Batches(rows, 1) {
		if err := p.Batch.Fill(b, b.Targets()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(p.Tensor(out.Logits).Float32s())
}

func random(vocab, n int) []int32 {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(rng.IntN(vocab))
	}
	return ids
}

// near fails unless the logits agree, relative to the largest: only the order of sums
// differs between the two.
func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	diff, scale := 0.0, 0.0
	for i, w := range want {
		diff = math.Max(diff, math.Abs(float64(got[i])-float64(w)))
		scale = math.Max(scale, math.Abs(float64(w)))
	}
	if !(diff <= 1e-5*scale) {
		t.Errorf("%s: logits differ by %.3g of the largest", what, diff/scale)
	}
}

// TestCachedLogitsAreThoseOfAWholeForward reads a sequence in pieces of every kind: whole
// ones, padded ones, single tokens, and more than the cache has room for at first.
func TestCachedLogitsAreThoseOfAWholeForward(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(testdata.Shared(t, "golden", "models"), "*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("%d reference models, %v", len(folders), err)
	}
	for _, dir := range folders {
		for _, kernels := range []string{"none", "all"} {
			t.Run(filepath.Base(dir)+" "+kernels, func(t *testing.T) {
				m := load(t, dir)
				place(t, m, kernels)
				feedAll(t, m, random(m.Vocab(), min(300, m.Config.MaxPositionEmbeddings)))
			})
		}
	}
}

// feedAll reads a sequence in pieces and compares the logits after each.
func feedAll(t *testing.T, m *models.Model, ids []int32) {
	t.Helper()
	want := whole(t, m, ids)
	s := generate.NewSession(m, autograd.Heap{}, 0)
	defer s.Close()
	for at, k := 0, 0; at < len(ids); k++ {
		piece := min([]int{5, 1, 1, 16, 130, 1, 17}[k%7], len(ids)-at)
		logits, err := s.Feed(t.Context(), ids[at:at+piece])
		if err != nil {
			t.Fatal(err)
		}
		at += piece
		near(t, fmt.Sprintf("piece %d, of %d tokens", k, piece), logits, want[(at-1)*m.Vocab():at*m.Vocab()])
	}
	if !slices.Equal(s.Tokens(), ids) {
		t.Error("the session does not know what it has read")
	}
}

// TestCachedLogitsOfEveryFamily has, where the family has them, windows shorter than the
// pieces, in all layers or in some, and a sequence that is much longer.
func TestCachedLogitsOfEveryFamily(t *testing.T) {
	for _, f := range models.Families() {
		t.Run(f.Type, func(t *testing.T) {
			c := f.Small()
			c["max_position_embeddings"] = 128
			m := ofRandom(t, c)
			feedAll(t, m, random(m.Vocab(), min(60, m.Config.MaxPositionEmbeddings)))
		})
	}
}

// TestTheCacheOfEveryFamilyIsAsLargeAsItSays: it begins with room for as many tokens, whatever a head has.
func TestTheCacheOfEveryFamilyIsAsLargeAsItSays(t *testing.T) {
	const block, blocks = 16, 16 // at first
	for _, f := range models.Families() {
		t.Run(f.Type, func(t *testing.T) {
			c := f.Small()
			c["max_position_embeddings"] = 1024
			m := ofRandom(t, c)
			s := generate.NewSession(m, autograd.Heap{}, 0)
			defer s.Close()
			if _, err := s.Feed(t.Context(), []int32{1}); err != nil {
				t.Fatal(err)
			}
			tokens := min(blocks, (s.Limit()+block-1)/block) * block
			if want := tokens * m.Config.NumHiddenLayers * m.Decoder.CacheBytes(); s.CacheBytes() != want {
				t.Errorf("the cache has %d bytes, want %d", s.CacheBytes(), want)
			}
		})
	}
}

// place puts the project's kernels on the model, as tune generate does.
func place(t testing.TB, m *models.Model, selection string) {
	t.Helper()
	reg := core.NewRegistry()
	for _, k := range linked.Kernels() {
		if err := reg.Register(kerneltest.Verified(k)); err != nil {
			t.Fatal(err)
		}
	}
	report, err := core.ApplyDefaultKernels(t.Context(), m.ForInference(), reg, selection, core.Inference(),
		core.Plain(core.Attention, "cached"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(report.Applied()); (n > 0) != (selection != "none") {
		t.Fatalf("%s: %d kernels on the model", selection, n)
	}
}

func TestTruncatedSessionGoesOnAsIfItHadReadNoMore(t *testing.T) {
	m := load(t, testdata.Shared(t, "golden", "models", "llama-tiny"))
	ids := random(m.Vocab(), 30)
	s := generate.NewSession(m, autograd.Heap{}, 0)
	defer s.Close()
	if _, err := s.Feed(t.Context(), append(slices.Clone(ids[:20]), 1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	s.Truncate(20)
	logits, err := s.Feed(t.Context(), ids[20:])
	if err != nil {
		t.Fatal(err)
	}
	near(t, "truncated", logits, whole(t, m, ids)[29*m.Vocab():])
}

func TestSessionHasALimit(t *testing.T) {
	m := load(t, testdata.Shared(t, "golden", "models", "llama-tiny"))
	for limit, want := range map[int]int{0: m.Config.MaxPositionEmbeddings, 1 << 30: m.Config.MaxPositionEmbeddings,
		7: 7} {
		if got := generate.NewSession(m, autograd.Heap{}, limit).Limit(); got != want {
			t.Errorf("limit %d gives %d, want %d", limit, got, want)
		}
	}
	s := generate.NewSession(m, autograd.Heap{}, 7)
	defer s.Close()
	if _, err := s.Feed(t.Context(), random(m.Vocab(), 8)); !errors.Is(err, generate.ErrFull) {
		t.Errorf("8 tokens in a session of 7: %v", err)
	}
	if _, err := s.Feed(t.Context(), random(m.Vocab(), 7)); err != nil {
		t.Error(err)
	}
	if _, err := s.Feed(t.Context(), nil); err == nil {
		t.Error("no tokens were read, and gave logits")
	}
}

func TestSessionReportsBadTokensAndBadWeights(t *testing.T) {
	m := load(t, testdata.Shared(t, "golden", "models", "llama-tiny"))
	s := generate.NewSession(m, autograd.Heap{}, 0)
	defer s.Close()
	if _, err := s.Feed(t.Context(), []int32{1, int32(m.Vocab())}); err == nil {
		t.Error("a token outside the vocabulary was read")
	}
	m.Params()[len(m.Params())-1].Tensor.Float32s()[0] = float32(math.NaN())
	if _, err := s.Feed(t.Context(), []int32{1}); err == nil {
		t.Error("logits of NaN were given out")
	}
	if len(s.Tokens()) != 0 {
		t.Errorf("what failed was read: %v", s.Tokens())
	}
}

func TestClosedSessionGivesItsMemoryBackAndTheModelCanBePatched(t *testing.T) {
	m := load(t, testdata.Shared(t, "golden", "models", "qwen3-moe"))
	mem := &counting{live: map[*byte]int{}}
	s := generate.NewSession(m, mem, 0)
	if _, err := s.Feed(t.Context(), random(m.Vocab(), 20)); err != nil {
		t.Fatal(err)
	}
	if s.CacheBytes() == 0 || len(mem.live) == 0 {
		t.Error("no memory was taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Feed(ctx, []int32{1}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s.Close()
	if len(mem.live) != 0 {
		t.Errorf("%d blocks are left", len(mem.live))
	}
	if _, err := s.Feed(t.Context(), []int32{1}); !errors.Is(err, generate.ErrClosed) || len(s.Tokens()) > 0 {
		t.Errorf("a closed session has %d tokens, and reads more: %v", len(s.Tokens()), err)
	}
	place(t, m, "all")
}

// counting knows what was not given back.
type counting struct{ live map[*byte]int }

func (c *counting) Alloc(n int) ([]byte, error) {
	b, err := autograd.Heap{}.Alloc(n)
	c.live[&b[0]] = n
	return b, err
}

func (c *counting) Free(b []byte) { delete(c.live, &b[0]) }

// ofRandom returns a model of a configuration with random weights.
func ofRandom(t *testing.T, config map[string]any) *models.Model {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.New(text, autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	return m
}
