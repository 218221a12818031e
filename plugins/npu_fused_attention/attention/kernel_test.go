package attention

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/golden"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/internal/simd/simdtest"
)

func TestConforms(t *testing.T) {
	kerneltest.Run(t, new(Kernel), kerneltest.Cases(core.Attention))
}

// TestAgreesWithPublishedCode allows eight roundings of float32.
func TestAgreesWithPublishedCode(t *testing.T) {
	golden.Run(t, new(Kernel), core.Float32, 0x1p-20)
}

// use is a case of rows of a causal mask, one after the other.
func use(d core.DType, rows, length, heads, kvHeads, headDim int) kerneltest.Case {
	return kerneltest.Case{Op: core.Attention, Tokens: rows * length, Seed: 1,
		Facts: core.Facts{DType: d, HeadDim: headDim, Heads: heads, KVHeads: kvHeads},
		Edit: func(in map[string][]core.Tensor) {
			keys := in["keys"][0].Int32s()
			for t := range len(keys) / 2 {
				keys[2*t], keys[2*t+1] = int32(t/length*length), int32(t+1)
			}
		}}
}

// TestKeysOfManyChunks has sequences so long that keys meet queries chunk by chunk, as
// one task and as parts of several.
func TestKeysOfManyChunks(t *testing.T) {
	for _, c := range []kerneltest.Case{
		use(core.Float32, 1, 2*forwardKeys+3, 2, 1, 5),
		use(core.BFloat16, 2, 700, 3, 3, 8),
		use(core.Float16, 1, 600, 17, 17, 2),
	} {
		kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
		simdtest.SameBits(t, new(Kernel), c)
	}
}

// TestRoomIsForTheTasksInHand: of one thread, the sums of the parts before and of the one that it computes are in
// memory, whatever the number of parts, and a call finds the memory of those before it.
func TestRoomIsForTheTasksInHand(t *testing.T) {
	defer simd.SetThreads(0)
	simd.SetThreads(1)
	k, c := new(Kernel), use(core.Float32, 1, 12*blockRows, 3, 3, 8)
	for range 2 {
		_, backward, err := kerneltest.Calls(t.Context(), k, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Backward(t.Context(), backward); err != nil {
			t.Fatal(err)
		}
		if n := len(k.rooms.all); n != 2 {
			t.Errorf("%d rooms, want 2: of %d tasks", n, len(tasks(c.Facts, backward.Input("keys").Int32s())))
		}
	}
}

// TestAnyRanges has queries that see anything, in any order, so that what blocks of them
// see has gaps and most of it is masked.
func TestAnyRanges(t *testing.T) {
	for seed := range uint64(6) {
		c := use(core.Float32, 1, 150+40*int(seed), 4, 2, 6)
		c.Edit = func(in map[string][]core.Tensor) {
			rng, keys := rand.New(rand.NewPCG(seed, 1)), in["keys"][0].Int32s()
			T := len(keys) / 2
			for t := range T {
				first := rng.IntN(T + 1)
				keys[2*t], keys[2*t+1] = int32(first), int32(first+rng.IntN(min(T-first, 1+int(seed)*30)+1))
			}
		}
		kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
	}
}

// TestHighScoresLast has scores that grow along the keys, so that every chunk shrinks
// what came before it, to nothing in the end.
func TestHighScoresLast(t *testing.T) {
	c := use(core.Float32, 1, 2*forwardKeys+80, 1, 1, 1) // three chunks
	causal := c.Edit
	c.Edit = func(in map[string][]core.Tensor) {
		causal(in)
		for i, x := range in["k"][0].Float32s() {
			in["k"][0].Float32s()[i] = x + float32(i)/4
			in["q"][0].Float32s()[i] = 1
		}
	}
	kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
}

// TestMinusInfinityBeforeFiniteScores has keys whose scores are -Inf, whole chunks of
// them at first: they weigh nothing, and only a query that sees no other has no answer.
func TestMinusInfinityBeforeFiniteScores(t *testing.T) {
	c := use(core.Float32, 1, forwardKeys+40, 1, 1, 1)
	causal := c.Edit
	c.Edit = func(in map[string][]core.Tensor) {
		causal(in)
		for i := range in["k"][0].Float32s() {
			in["q"][0].Float32s()[i] = 1
			if i < forwardKeys+10 {
				in["k"][0].Float32s()[i] = float32(math.Inf(-1))
			}
		}
	}
	kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
}

func TestSegmentsCutWhereNobodySeesAcross(t *testing.T) {
	for name, c := range map[string]struct {
		keys  ranges
		least int
		want  []segment
	}{
		"each for itself":    {ranges{0, 1, 1, 2, 2, 3}, 1, []segment{{0, 1}, {1, 2}, {2, 3}}},
		"causal":             {ranges{0, 1, 0, 2, 0, 3}, 1, []segment{{0, 3}}},
		"two documents":      {ranges{0, 1, 0, 2, 2, 3, 2, 4}, 1, []segment{{0, 2}, {2, 4}}},
		"too short":          {ranges{0, 1, 0, 2, 2, 3, 2, 4}, 3, []segment{{0, 4}}},
		"seen later":         {ranges{0, 1, 1, 2, 0, 3}, 1, []segment{{0, 3}}},
		"seen before":        {ranges{0, 3, 1, 2, 2, 3}, 1, []segment{{0, 3}}},
		"elsewhere":          {ranges{2, 3, 1, 2, 2, 3}, 1, []segment{{0, 3}}},
		"a query sees none":  {ranges{0, 1, 0, 0, 2, 3}, 1, []segment{{0, 1}, {1, 2}, {2, 3}}},
		"none sees anything": {ranges{0, 0, 0, 0}, 1, []segment{{0, 1}, {1, 2}}},
	} {
		if got := c.keys.segments(c.least); !slices.Equal(got, c.want) {
			t.Errorf("%s: segments %v, want %v", name, got, c.want)
		}
	}
}

func TestSupportsNamesTheFactAtFault(t *testing.T) {
	for want, change := range map[string]func(f *core.Facts){
		"storage float64": func(f *core.Facts) { f.DType = core.Float64 },
		"kv_heads":        func(f *core.Facts) { f.KVHeads = 3 },
	} {
		f := use(core.Float32, 1, 1, 4, 2, 8).Facts
		if err := new(Kernel).Supports(f); err != nil {
			t.Fatal(err)
		}
		change(&f)
		if err := new(Kernel).Supports(f); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %s", err, want)
		}
	}
}

// BenchmarkAttention counts the operations of what causal queries see.
func BenchmarkAttention(b *testing.B) {
	for name, s := range map[string][5]int{
		"1024 tokens, 16 heads of 64":    {1, 1024, 16, 16, 64},
		"1024 tokens, 16:8 heads of 128": {1, 1024, 16, 8, 128},
		"4 rows of 256, 8:4 heads of 64": {4, 256, 8, 4, 64},
	} {
		b.Run(name, func(b *testing.B) {
			c := use(core.Float32, s[0], s[1], s[2], s[3], s[4])
			pairs := float64(s[0]) * float64(s[1]) * float64(s[1]+1) / 2
			kerneltest.Benchmark(b, new(Kernel), c, 4*pairs*float64(s[2]*s[4]))
		})
	}
}
