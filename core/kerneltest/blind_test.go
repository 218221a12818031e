package kerneltest_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// blind is a bug that the cases of Cases do not show, and the kind of case that finds it.
type blind struct {
	name, kind string
	op         core.Op
	bug        func(runFunc, *core.Call) error
}

func (b blind) plant(k core.Kernel) core.Kernel { return faulty{k, b.bug} }

// spoil makes an output wrong in one element of each of its last tokens.
func spoil(run runFunc, c *core.Call) error {
	err := run(c)
	if err == nil {
		x := c.Out[0]
		v := make([]float32, 1)
		last := x.Slice(x.Elems()-1, x.Elems(), 1)
		last.Load(v, 0)
		last.Store([]float32{v[0]*2 + 1}, 0)
	}
	return err
}

// cut is where a kernel that has room for 2^20 logits cuts the vocabulary, 0 if it need not.
func cut(c *core.Call) int {
	targets := 0
	for _, label := range c.Input("labels").Int32s() {
		if label >= 0 {
			targets++
		}
	}
	if n := 1 << 20 / max(targets, 1); n < vocab(c) {
		return n
	}
	return 0
}

// where is spoil for some calls only.
func where(is func(c *core.Call) bool) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		if is(c) {
			return spoil(run, c)
		}
		return run(c)
	}
}

// rest spoils what a loop over blocks leaves behind when that is some number.
func rest(size func(c *core.Call) int, block, left int) func(runFunc, *core.Call) error {
	return where(func(c *core.Call) bool { n := size(c); return n > block && n%block == left })
}

func more(size func(c *core.Call) int, than int) func(runFunc, *core.Call) error {
	return where(func(c *core.Call) bool { return size(c) > than })
}

// whole spoils calls of which all sizes are multiples of a block.
func whole(block int, sizes ...func(c *core.Call) int) func(runFunc, *core.Call) error {
	return where(func(c *core.Call) bool {
		return !slices.ContainsFunc(sizes, func(size func(c *core.Call) int) bool { return size(c)%block != 0 })
	})
}

func tokens(c *core.Call) int       { return c.Tokens() }
func dim(c *core.Call) int          { return c.Facts.Dim }
func outputs(c *core.Call) int      { return c.Facts.Out }
func rank(c *core.Call) int         { return c.Facts.Rank }
func intermediate(c *core.Call) int { return c.Facts.Intermediate }
func elements(c *core.Call) int     { return c.In[0].Elems() }
func vocab(c *core.Call) int        { return c.Facts.Vocab }
func headDim(c *core.Call) int      { return c.Facts.HeadDim }
func group(c *core.Call) int        { return c.Facts.Heads / c.Facts.KVHeads }
func topK(c *core.Call) int         { return c.Facts.TopK }
func numExperts(c *core.Call) int   { return c.Facts.Experts }
func positions(c *core.Call) int    { return int(slices.Max(c.Input("positions").Int32s())) + 1 }
func tableEnd(c *core.Call) int     { return c.Input("cos").Shape[0] }

// capacity is the most assignments that any expert has.
func capacity(c *core.Call) int {
	n := make([]int, c.Facts.Experts)
	for _, e := range c.Input("expert_ids").Int32s() {
		if e >= 0 && int(e) < len(n) {
			n[e]++
		}
	}
	return slices.Max(n)
}

// back is how far the farthest key lies behind its query.
func back(c *core.Call) int {
	n := 0
	for t, v := 0, c.Input("keys").Int32s(); t < len(v)/2; t++ {
		if v[2*t] < v[2*t+1] {
			n = max(n, t-int(v[2*t]))
		}
	}
	return n
}

// startsAt reports whether keys of a query but the first begin at a multiple of n.
func startsAt(n int) func(c *core.Call) bool {
	return func(c *core.Call) bool {
		v := c.Input("keys").Int32s()
		for t := 0; t < len(v); t += 2 {
			if first := int(v[t]); first > 0 && first%n == 0 && first == t/2 {
				return true
			}
		}
		return false
	}
}

// masked makes indices lose their upper bits, as in a type that is too small.
func masked(name string, mask int32) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		other := *c
		other.In = slices.Clone(c.In)
		x := core.NewTensor(core.Int32, c.Input(name).Shape...)
		for i, v := range c.Input(name).Int32s() {
			x.Int32s()[i] = v & mask
			if v < 0 {
				x.Int32s()[i] = v
			}
		}
		other.Set(name, x)
		if err := run(&other); err != nil {
			return run(c) // a bad call stays one
		}
		return nil
	}
}

// blindSizes are bugs in sizes.
var blindSizes = []blind{
	{"takes position & 15", "sizes of positions", core.RoPE, masked("positions", 15)},
	{"tables end at 4,096", "large positions", core.RoPE, more(positions, 4096)},
	{"positions of 16 bits", "large positions", core.RoPE, masked("positions", 0xffff)},
	{"the last row of the tables", "sizes of positions",
		core.RoPE, where(func(c *core.Call) bool { return positions(c) == tableEnd(c) && positions(c) > 11 })},
	{"high positions of high rows", "large tokens in order", core.RoPE, where(func(c *core.Call) bool {
		v := c.Input("positions").Int32s()
		return slices.ContainsFunc(v[min(96, len(v)):], func(p int32) bool { return p >= 96 })
	})},
	{"rest of 2 rows", "sizes of tokens", core.RMSNorm, rest(tokens, 8, 2)},
	{"rest of 4 rows", "sizes of tokens", core.SwiGLU, rest(tokens, 8, 4)},
	{"rest of 14 rows", "sizes of tokens", core.RoPE, rest(tokens, 16, 14)},
	{"rest of 31 rows", "sizes of tokens", core.LinearCrossEntropy, rest(tokens, 32, 31)},
	{"rest of 63 queries", "sizes of tokens", core.Attention, rest(tokens, 64, 63)},
	{"rest of 10 columns", "sizes of dim", core.AddRMSNorm, rest(dim, 16, 10)},
	{"rest of 14 columns", "sizes of intermediate", core.SwiGLU, rest(intermediate, 16, 14)},
	{"rest of 24 rows of an expert", "sizes of rows of an expert", core.MoEExperts, rest(capacity, 32, 24)},
	{"rest of 22 words", "sizes of vocab", core.LinearCrossEntropy, rest(vocab, 32, 22)},
	{"rest of 22 columns of a product", "sizes of out", core.Linear, rest(outputs, 32, 22)},
	{"rest of 26 terms of a product", "sizes of dim", core.Linear, rest(dim, 32, 26)},
	{"rest of 45 rows of a product", "sizes of tokens", core.Linear, rest(tokens, 48, 45)},
	{"rest of 22 in an adapter", "sizes of rank", core.Linear, rest(rank, 32, 22)},
	{"products of more than 4,096 rows", "large tokens", core.Linear, more(tokens, 4096)},
	{"products of more than 8,192 terms", "large dim", core.Linear, more(dim, 8192)},
	{"products of more than 8,192 columns", "large out", core.Linear, more(outputs, 8192)},
	{"adapters over 64", "large rank", core.Linear, more(rank, 64)},
	{"terms past a block behind one of rows", "large in all sizes", core.Linear,
		where(func(c *core.Call) bool { return tokens(c) > 14 && dim(c) > 512 })},
	{"columns past a block behind one of rows", "large in all sizes", core.Linear,
		where(func(c *core.Call) bool { return tokens(c) > 14 && outputs(c) > 512 })},
	{"an adapter past a block behind one of rows", "large in all sizes", core.Linear,
		where(func(c *core.Call) bool { return tokens(c) > 14 && rank(c) > 34 })},
	{"terms of int8 past a block behind one of rows", "large in all sizes", core.Linear,
		where(func(c *core.Call) bool {
			return tokens(c) > 14 && dim(c) > 512 && c.Facts.WeightDType == core.Int8
		})},
	{"one token of many terms", "large dim, one token", core.Linear,
		where(func(c *core.Call) bool { return tokens(c) == 1 && dim(c) > 130 })},
	{"one token, a rest of 10 terms", "sizes of all, one token", core.Linear,
		where(func(c *core.Call) bool { return tokens(c) == 1 && dim(c) > 16 && dim(c)%16 == 10 })},
	{"rest of 22 columns behind whole rows", "sizes of all, whole rows", core.Linear,
		where(func(c *core.Call) bool { return tokens(c) >= 14 && outputs(c) > 32 && outputs(c)%32 == 22 })},
	{"words past a block behind one of rows", "large in all sizes", core.LinearCrossEntropy,
		where(func(c *core.Call) bool { return tokens(c) > 14 && vocab(c) > 2048 })},
	{"a full table of blocks", "whole blocks of all sizes", core.PagedAttention,
		where(func(c *core.Call) bool {
			return slices.Contains(c.Input("seq_lens").Int32s(), int32(c.Input("block_tables").Shape[1]*c.Facts.BlockSize))
		})},
	{"more than 2^20 logits", "large in all sizes", core.LinearCrossEntropy,
		where(func(c *core.Call) bool { return cut(c) > 0 })},
	{"whole blocks of 2^20 logits", "large in all sizes", core.LinearCrossEntropy,
		where(func(c *core.Call) bool { n := cut(c); return n > 0 && vocab(c)%n == 0 })},
	{"the first word of a block of 2^20 logits", "large in all sizes", core.LinearCrossEntropy,
		where(func(c *core.Call) bool {
			n := cut(c)
			return n > 0 && slices.Contains(c.Input("labels").Int32s(), int32(n))
		})},
	{"a maximum that falls behind 2^20 logits", "large in all sizes", core.LinearCrossEntropy,
		where(func(c *core.Call) bool {
			n, x, w := cut(c), c.Input("x"), c.Input("weight")
			return n > 0 && x.Float32s()[0]*(w.Float32s()[0]-w.Float32s()[n*c.Facts.Dim]) > 700
		})},
	{"keys past a block of several heads", "large in all sizes", core.Attention,
		where(func(c *core.Call) bool { return tokens(c) > 512 && c.Facts.Heads > 1 })},
	{"experts' terms past a block behind one of rows", "large in all sizes", core.MoEExperts,
		where(func(c *core.Call) bool { return capacity(c) > 16 && dim(c) > 264 })},
	{"rest of 6 in a head", "sizes of head_dim", core.Attention, rest(headDim, 8, 6)},
	{"rest of 5 experts", "sizes of experts", core.MoEGate, rest(numExperts, 8, 5)},
	{"whole blocks of 32 only, without a rest", "sizes of dim",
		core.RMSNorm, where(func(c *core.Call) bool { return dim(c)%32 == 0 && dim(c) == 96 })},
	{"more than 2,048 rows", "large tokens", core.RMSNorm, more(tokens, 2048)},
	{"odd numbers of rows beyond 2,048", "large tokens",
		core.RMSNorm, where(func(c *core.Call) bool { return tokens(c) > 2048 && tokens(c)%2 == 1 })},
	{"odd widths beyond 2,048", "large dim",
		core.MoEExperts, where(func(c *core.Call) bool { return dim(c) > 2048 && dim(c)%2 == 1 })},
	{"more than 65,535 rows", "large tokens", core.SwiGLU, more(tokens, 0xffff)},
	{"2^20 elements", "large in all sizes", core.SwiGLU, more(elements, 1<<20)},
	{"rows of more than 8,192", "large dim", core.RMSNorm, more(dim, 8192)},
	{"more than 512 tokens", "large tokens", core.Attention, more(tokens, 512)},
	{"keys more than 256 back", "large window", core.Attention, more(back, 256)},
	{"keys more than 1,024 back", "large window", core.Attention, more(back, 1024)},
	{"segment at a multiple of 64", "sizes of segments", core.Attention, where(startsAt(64))},
	{"segment at a multiple of 128", "sizes of segments", core.Attention, where(startsAt(128))},
	{"head_dim over 128", "large head_dim", core.Attention, more(headDim, 128)},
	{"groups over 4", "sizes of group", core.Attention, more(group, 4)},
	{"groups over 64", "large group", core.Attention, more(group, 64)},
	{"top_k over 8", "sizes of top_k", core.MoEGate, more(topK, 8)},
	{"top_k over 8 in the experts", "sizes of top_k", core.MoEExperts, more(topK, 8)},
	{"200 experts", "large experts", core.MoEExperts, more(numExperts, 199)},
	{"expert ids of 8 bits", "large experts", core.MoEExperts, masked("expert_ids", 0xff)},
	{"more than 256 experts to choose of", "large experts", core.MoEGate, more(numExperts, 256)},
	{"capacity of 100", "sizes of rows of an expert", core.MoEExperts, more(capacity, 99)},
	{"capacity of 1,024", "large rows of an expert", core.MoEExperts, more(capacity, 1024)},
	{"vocabulary over 1,024", "large vocab", core.LinearCrossEntropy, more(vocab, 1024)},
	{"vocabulary over 8,192", "large vocab", core.LinearCrossEntropy, more(vocab, 8192)},
	{"labels of 16 bits", "large vocab", core.LinearCrossEntropy, masked("labels", 0xffff)},
	{"dweight of the first 2,048 rows only", "large tokens", core.RMSNorm, func(run runFunc, c *core.Call) error {
		if c.Pass == core.Forward || c.Facts.Frozen {
			return run(c)
		}
		err := run(c)
		keep := slices.Clone(c.Output("dx").Data)
		D := c.Facts.Dim
		if T := c.Tokens(); err == nil && T > 2048 {
			err = withInput("dy", func(_ *core.Call, v []float32) { clear(v[2048*D:]) })(run, c)
			copy(c.Output("dx").Data, keep)
		}
		return err
	}},
	{"sums of half precision over long rows", "large dim",
		core.LinearCrossEntropy, func(run runFunc, c *core.Call) error {
			if c.Facts.DType != core.BFloat16 || c.Facts.Dim < 2000 {
				return run(c)
			}
			return after("losses", func(c *core.Call, v []float32) {
				for i := range v {
					v[i] *= 1 + 0.05*float32(math.Sqrt(float64(c.Facts.Dim))/64)
				}
			})(run, c)
		}},
	{"whole blocks of 64 tokens, terms and columns", "whole blocks of all sizes", core.Linear,
		whole(64, tokens, dim, outputs)},
	{"adapters of 16 or 32 to a weight in NF4", "whole blocks of all sizes", core.Linear,
		where(func(c *core.Call) bool {
			return (rank(c) == 16 || rank(c) == 32) && c.Facts.WeightDType == core.NF4
		})},
	{"whole blocks of 64 tokens, terms and words", "whole blocks of all sizes", core.LinearCrossEntropy,
		whole(64, tokens, dim, vocab)},
	{"whole blocks of 16 tokens and experts", "whole blocks of all sizes", core.MoEGate, whole(16, tokens, numExperts)},
	{"whole blocks of 32 tokens and columns, at multiples of 64 bytes", "whole blocks of all sizes", core.SwiGLU,
		where(func(c *core.Call) bool {
			return tokens(c)%32 == 0 && intermediate(c)%32 == 0 &&
				!slices.ContainsFunc(c.In, func(x core.Tensor) bool { return uintptr(unsafe.Pointer(beside(x, 0)))%64 != 0 })
		})},
	{"a piece of a prompt over 32, behind more than 64", "large tokens of a prompt", core.PagedAttention,
		where(func(c *core.Call) bool {
			n := c.Input("query_lens").Int32s()[0]
			return n > 32 && c.Input("seq_lens").Int32s()[0]-n > 64
		})},
	{"rests of rows and columns at once, without an adapter", "sizes of all at once", core.Linear,
		where(func(c *core.Call) bool {
			f := c.Facts
			return f.Products == core.BFloat16 && f.Rank == 0 && !f.Bias && !f.Frozen && tokens(c) > 8 && tokens(c)%8 == 5 &&
				f.Out > 8 && f.Out%8 != 0
		})},
	{"one token of rests without an adapter", "sizes of all, one token", core.Linear, where(func(c *core.Call) bool {
		return c.Facts.Products == core.BFloat16 && c.Facts.Rank == 0 && !c.Facts.Bias && tokens(c) == 1 &&
			c.Facts.Dim > 16 && c.Facts.Dim%16 != 0 && c.Facts.Out > 16 && c.Facts.Out%16 != 0
	})},
	{"rests of blocks and of a head at once, without a window", "sizes of all at once", core.PagedAttention,
		where(func(c *core.Call) bool {
			f := c.Facts
			return f.Window == 0 && f.HeadDim > 8 && f.HeadDim%8 != 0 && f.BlockSize > 8 && f.BlockSize%8 != 0
		})},
	{"a window over 64 of several heads", "large in all sizes", core.PagedAttention,
		where(func(c *core.Call) bool { return c.Facts.Window > 64 && c.Facts.KVHeads > 1 })},
	{"only of packed gates, beyond 4,096", "large intermediate", core.SwiGLU, where(func(c *core.Call) bool {
		return c.Facts.Layout == core.Packed && c.Facts.DType == core.BFloat16 && c.Facts.Intermediate > 4096
	})},
}

// TestSizesFindBugsThatOneSizeHides: each bug is found by the kind of case that docs/verify.md names.
func TestSizesFindBugsThatOneSizeHides(t *testing.T) {
	findAll(t, slices.Concat(blindSizes, blindJoint), kerneltest.Sizes)
}

// findAll looks for bugs in the cases of their kinds. What the references give in a case, all bugs of its kind share
// that none before has shown.
func findAll(t *testing.T, bugs []blind, cases func(core.Op) []kerneltest.Case) {
	type place struct {
		op   core.Op
		kind string
	}
	all, groups := map[core.Op][]kerneltest.Case{}, map[place][]blind{}
	for _, b := range bugs {
		if all[b.op] == nil {
			all[b.op] = cases(b.op)
		}
		at := place{b.op, b.kind}
		groups[at] = append(groups[at], b)
	}
	for at, bugs := range groups {
		t.Run(string(at.op)+", "+at.kind, func(t *testing.T) {
			t.Parallel()
			find(t, bugs, reference.Single(at.op), all[at.op])
		})
	}
}

// find wants a case of the bugs' kind, which is the same of all, to find each of them, planted in k by itself.
func find(t *testing.T, bugs []blind, k core.Kernel, cases []kerneltest.Case) {
	left := slices.Clone(bugs)
	for _, c := range cases {
		if len(left) == 0 || c.Kind != bugs[0].kind || k.Supports(c.Facts) != nil {
			continue
		}
		var plant []func(core.Kernel) core.Kernel
		for _, b := range left {
			plant = append(plant, b.plant)
		}
		var hidden []blind
		for i, err := range kerneltest.CheckEach(k, []kerneltest.Case{c}, plant...) {
			if err == nil {
				hidden = append(hidden, left[i])
			} else if !errors.Is(err, core.ErrWrongResult) {
				t.Errorf("%s: found by another error: %v", left[i].name, err)
			}
		}
		left = hidden
	}
	for _, b := range left {
		t.Errorf("%s: no case of the kind %q finds it", b.name, b.kind)
	}
}

// choosy supports some facts only.
type choosy struct {
	core.Kernel
	takes func(f core.Facts) bool
}

func (k choosy) Supports(f core.Facts) error {
	if !k.takes(f) {
		return core.ErrNotSupported
	}
	return k.Kernel.Supports(f)
}

// narrowOnly is the reference for small widths: what is tried with wide weights is then tried with small ones, in a
// fraction of the time.
func narrowOnly(op core.Op) core.Kernel {
	return choosy{reference.Single(op), func(f core.Facts) bool { return f.Dim < 100 }}
}

// TestAKernelOfFewUsesIsAskedAboutAllSizes as others are, in the first use that it supports.
func TestAKernelOfFewUsesIsAskedAboutAllSizes(t *testing.T) {
	uses := map[string]func(f core.Facts) bool{
		"products in bfloat16": func(f core.Facts) bool { return f.Products == core.BFloat16 },
		"weights in int8":      func(f core.Facts) bool { return f.WeightDType == core.Int8 },
		"weights in nf4":       func(f core.Facts) bool { return f.WeightDType == core.NF4 },
		"frozen weights":       func(f core.Facts) bool { return f.Frozen },
		"storage in float16":   func(f core.Facts) bool { return f.DType == core.Float16 },
		"adapters":             func(f core.Facts) bool { return f.Rank > 0 && f.Rank%8 == 0 },
		"out in eights":        func(f core.Facts) bool { return f.Out%8 == 0 },
	}
	bugs := map[string]blind{
		"more than 512 columns": {"", "large out", core.Linear, more(outputs, 512)},
		"more than 8,192 terms": {"", "large dim", core.Linear, more(dim, 8192)},
		"rest of 53 rows":       {"", "sizes of tokens", core.Linear, rest(tokens, 64, 53)},
		"rest of 32 columns":    {"", "sizes of out", core.Linear, rest(outputs, 64, 32)},
	}
	for use, takes := range uses {
		for name, b := range bugs {
			t.Run(use+", "+name, func(t *testing.T) {
				t.Parallel()
				find(t, []blind{b}, choosy{reference.Single(b.op), takes},
					kerneltest.SizesFor(choosy{reference.Single(b.op), takes}))
			})
		}
	}
}

// TestSizesThatNobodyAskedAboutAreSaid: all that it supports is one size.
func TestSizesThatNobodyAskedAboutAreSaid(t *testing.T) {
	k := choosy{reference.Single(core.Linear), func(f core.Facts) bool { return f.Dim == 130 && f.Out == 17 }}
	r, err := kerneltest.Examine(t.Context(), k, kerneltest.Options{Calls: 1, Repeats: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(of(r, "sizes")) != 1 {
		t.Error("nothing is said")
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}

// TestCasesAreBlindToThem keeps the list honest: what Cases finds has no place in it.
func TestCasesAreBlindToThem(t *testing.T) {
	for _, op := range core.Ops() {
		var names []string
		var plant []func(core.Kernel) core.Kernel
		for _, b := range slices.Concat(blindSizes, blindJoint) {
			if b.op == op {
				names, plant = append(names, b.name), append(plant, b.plant)
			}
		}
		if len(plant) == 0 {
			continue
		}
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			cases := slices.DeleteFunc(kerneltest.Cases(op),
				func(c kerneltest.Case) bool { return c.Facts.DType != core.Float32 || c.Facts.Frozen })
			if len(cases) == 0 {
				t.Error("no case checked")
			}
			for i, err := range kerneltest.CheckEach(reference.Single(op), cases, plant...) {
				if err != nil {
					t.Errorf("%s is found: %.300v", names[i], err)
				}
			}
		})
	}
}
