package pagedattention

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/golden"
	"github.com/seed98097648/tune/internal/simd/simdtest"
)

func TestConforms(t *testing.T) {
	kerneltest.Run(t, new(Kernel), kerneltest.Cases(core.PagedAttention))
}

// TestAgreesWithPublishedCode has the limit of the attention of training, but where scores are about a hundred:
// one rounding of such a score is a relative error of 64*2^-24 in its exponential.
func TestAgreesWithPublishedCode(t *testing.T) {
	golden.RunEach(t, new(Kernel), core.Float32, func(variant string) float64 {
		if variant == "sharp" {
			return 64 * 0x1p-24
		}
		return 0x1p-20
	})
}

// sequence is the last tokens of so many.
type sequence struct{ queries, all int }

// use is a case of some sequences.
func use(f core.Facts, of ...sequence) kerneltest.Case {
	c := kerneltest.Case{Op: core.PagedAttention, Seed: 1, Facts: f}
	for _, s := range of {
		c.Tokens += s.queries
		c.Positions = max(c.Positions, s.all/f.BlockSize+2)
	}
	c.Edit = func(in map[string][]core.Tensor) {
		tables, blocks := in["block_tables"][0], in["k_cache"][0].Shape[0]
		queries, lens := in["query_lens"][0].Int32s(), in["seq_lens"][0].Int32s()
		rng := rand.New(rand.NewPCG(5, uint64(len(of))))
		clear(queries)
		clear(lens)
		for b, s := range of {
			queries[b], lens[b] = int32(s.queries), int32(s.all)
			for i, block := range rng.Perm(blocks)[:min(blocks, tables.Shape[1])] {
				tables.Int32s()[b*tables.Shape[1]+i] = int32(block)
			}
		}
	}
	return c
}

func facts(d core.DType, heads, kvHeads, headDim, size int) core.Facts {
	return core.Facts{DType: d, HeadDim: headDim, Heads: heads, KVHeads: kvHeads, BlockSize: size, Scale: 0.3}
}

// TestContextsOfManyParts has sequences so long that single tokens meet several parts of them, and tiles what
// is packed in several pieces.
func TestContextsOfManyParts(t *testing.T) {
	windowed := facts(core.Float32, 4, 2, 8, 16)
	windowed.Window = 2*partTokens + 3
	for _, c := range []kerneltest.Case{
		use(facts(core.Float32, 2, 1, 5, 3), sequence{1, 3*partTokens + 7}, sequence{2, partTokens}),
		use(facts(core.BFloat16, 3, 3, 8, 7), sequence{1, 2*partTokens + 1}, sequence{90, tileTokens + 100}),
		use(windowed, sequence{1, 4 * partTokens}, sequence{300, 3 * tileTokens}, sequence{3, 3 * partTokens}),
		use(facts(core.Float16, 17, 1, 2, 16), sequence{33, 2*tileTokens + 5}),
	} {
		kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
		simdtest.SameBits(t, new(Kernel), c)
	}
}

// TestMinusInfinityBeforeFiniteScores has whole parts of keys whose scores are -Inf: they weigh nothing.
func TestMinusInfinityBeforeFiniteScores(t *testing.T) {
	for _, s := range []sequence{{1, 2*partTokens + 9}, {tileTokens + 9, tileTokens + 9}} {
		c := use(facts(core.Float32, 1, 1, 1, 4*tileTokens), s)
		inner := c.Edit
		c.Edit = func(in map[string][]core.Tensor) {
			inner(in)
			for i := range in["q"][0].Float32s() {
				in["q"][0].Float32s()[i] = 1
			}
			start := int(in["block_tables"][0].Int32s()[0]) * c.Facts.BlockSize
			for i := range s.all - 5 {
				in["k_cache"][0].Float32s()[start+i] = float32(math.Inf(-1))
			}
		}
		kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
	}
}

// TestWhatIsNotSeenInATileDoesNotReachIt: a value that is NaN is no part of y of the tokens before it, nor of
// those whose window it has left.
func TestWhatIsNotSeenInATileDoesNotReachIt(t *testing.T) {
	f := facts(core.Float32, 4, 2, 16, 16)
	f.Window = 20
	c := use(f, sequence{64, 64})
	inner := c.Edit
	c.Edit = func(in map[string][]core.Tensor) {
		inner(in)
		slot := int(in["block_tables"][0].Int32s()[1]) * f.BlockSize
		in["v_cache"][0].Float32s()[slot*f.KVHeads*f.HeadDim] = float32(math.NaN())
	}
	kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
}

// company is a call of sequences whose keys and values follow from their number alone.
func company(t *testing.T, size int, of map[int]sequence) map[int][]float32 {
	t.Helper()
	f := facts(core.Float32, 4, 2, 24, size)
	call, err := core.NewCall(core.PagedAttention, core.Forward, f)
	if err != nil {
		t.Fatal(err)
	}
	width, blocks, places, tokens := f.KVHeads*f.HeadDim, 0, 0, 0
	for _, s := range of {
		n := (s.all + size - 1) / size
		blocks, places, tokens = blocks+n, max(places, n), tokens+s.queries
	}
	order := rand.New(rand.NewPCG(9, uint64(blocks))).Perm(blocks)
	q := make([]float32, tokens*f.Heads*f.HeadDim)
	keys, values := make([]float32, blocks*size*width), make([]float32, blocks*size*width)
	tables, queries, lens := make([]int32, len(of)*places), []int32{}, []int32{}
	names, row := []int{}, 0
	for n := range of {
		names = append(names, n)
	}
	slices.Sort(names)
	for b, n := range names {
		s, rng := of[n], rand.New(rand.NewPCG(3, uint64(n)))
		for i := range (s.all + size - 1) / size {
			tables[b*places+i], order = int32(order[0]), order[1:]
		}
		for j := range s.all {
			at := (int(tables[b*places+j/size])*size + j%size) * width
			for i := range width {
				keys[at+i], values[at+i] = rng.Float32()-0.5, rng.Float32()-0.5
			}
		}
		for range s.queries * f.Heads * f.HeadDim {
			q[row] = 4*rng.Float32() - 2
			row++
		}
		queries, lens = append(queries, int32(s.queries)), append(lens, int32(s.all))
	}
	cache := core.Shape{blocks, size, f.KVHeads, f.HeadDim}
	call.In = []core.Tensor{core.FromFloat32(q, tokens, f.Heads, f.HeadDim), core.FromFloat32(keys, cache...),
		core.FromFloat32(values, cache...), core.FromInt32(tables, len(of), places), core.FromInt32(queries, len(of)),
		core.FromInt32(lens, len(of))}
	call.Out = []core.Tensor{core.FromFloat32(make([]float32, len(q)), tokens, f.Heads, f.HeadDim)}
	if err := core.Run(t.Context(), new(Kernel), call); err != nil {
		t.Fatal(err)
	}
	got, y := map[int][]float32{}, call.Out[0].Float32s()
	for b, n := range names {
		got[n], y = y[:int(queries[b])*f.Heads*f.HeadDim], y[int(queries[b])*f.Heads*f.HeadDim:]
	}
	return got
}

// TestBitsDependNeitherOnCompanyNorOnBlocks: a text is the same alone and among others.
func TestBitsDependNeitherOnCompanyNorOnBlocks(t *testing.T) {
	all := map[int]sequence{1: {1, 1}, 2: {1, 700}, 3: {1, partTokens}, 4: {1, partTokens + 1}, 5: {64, 600}, 6: {2, 300},
		7: {1, 2}, 8: {16, 16}}
	want := company(t, 16, all)
	for _, size := range []int{1, 16, 128} {
		in := company(t, size, all)
		for n, s := range all {
			alone := company(t, size, map[int]sequence{n: s})
			for what, got := range map[string][]float32{"in company": in[n], "alone": alone[n]} {
				if !slices.Equal(got, want[n]) {
					t.Errorf("sequence %d, %v, %s, blocks of %d: other bits", n, s, what, size)
				}
			}
		}
	}
}

func TestThereIsNoBackwardPass(t *testing.T) {
	err := new(Kernel).Backward(t.Context(), &core.Call{Op: core.PagedAttention})
	if !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("error %v, want one that wraps ErrNotSupported", err)
	}
}

func BenchmarkPagedAttention(b *testing.B) {
	for _, s := range []struct {
		texts, queries, all int
	}{{1, 1, 512}, {1, 1, 4096}, {8, 1, 512}, {1, 128, 512}, {1, 16, 512}} {
		b.Run(fmt.Sprintf("%d of %d tokens, the last %d", s.texts, s.all, s.queries), func(b *testing.B) {
			all := slices.Repeat([]sequence{{s.queries, s.all}}, s.texts)
			c := use(facts(core.Float32, 16, 8, 128, 16), all...)
			kerneltest.Benchmark(b, new(Kernel), c, 4*float64(s.texts*s.queries*(s.all-s.queries/2)*16*128))
		})
	}
}
