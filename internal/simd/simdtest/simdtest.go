// Package simdtest checks what kernels that are built on package simd promise.
package simdtest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/keep"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/simd"
)

// SameBits fails when a kernel's outputs depend on the number of threads. The case
// should be large enough to be worth several of them.
func SameBits(t *testing.T, k core.Kernel, c kerneltest.Case) {
	t.Helper()
	defer simd.SetThreads(0)
	var first [2]*core.Call
	for _, threads := range []int{1, 2, 7} {
		simd.SetThreads(threads)
		forward, backward, err := kerneltest.Calls(t.Context(), k, c)
		if err != nil {
			t.Fatal(err)
		}
		calls := [2]*core.Call{forward, backward}
		if backward != nil { // nil where the op has no such pass
			if err := core.Run(t.Context(), k, backward); err != nil {
				t.Fatal(err)
			}
		}
		if threads == 1 {
			first = calls
			continue
		}
		for pass, call := range calls {
			if call == nil {
				continue
			}
			for i, x := range call.Out {
				if !bytes.Equal(x.Data, first[pass].Out[i].Data) {
					t.Errorf("%s: output %d has other bits with %d threads than with one", call.Pass, i, threads)
				}
			}
		}
	}
}

// SameWhenLarge fails when a kernel gives a token of a large call, whose results it stores
// past the caches, other bits than the same token of a small call, when it writes past the
// end of an output, or when the small call is not as the reference says. The small call is
// the case, in a storage type that is streamed; the large one has its tokens so many times
// over. It returns both backward calls, for the caller to look at sums over tokens.
func SameWhenLarge(t *testing.T, k core.Kernel, c kerneltest.Case, times int) (small, large *core.Call) {
	t.Helper()
	kerneltest.Run(t, k, []kerneltest.Case{c})
	forward, backward, err := kerneltest.Calls(t.Context(), k, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, small = range []*core.Call{forward, backward} {
		var tails [][]byte
		large, tails = repeated(t, small, times)
		if !simd.StreamFor(large.Work().Bytes) {
			t.Fatalf("%s: a call of %d bytes is not streamed", small.Pass, large.Work().Bytes)
		}
		for _, call := range []*core.Call{small, large} {
			if err := core.Run(t.Context(), k, call); err != nil {
				t.Fatal(err)
			}
		}
		for i, a := range args(small.Sig.Out) {
			if a.Shape[0] == core.DimT && !isRepeated(large.Out[i].Data, small.Out[i].Data) {
				t.Errorf("%s: %s has other bits in a large call than in a small one", small.Pass, a.Name)
			}
			if !isRepeated(tails[i], []byte{unset}) {
				t.Errorf("%s: written past the end of %s", small.Pass, a.Name)
			}
		}
	}
	return small, large
}

// unset is what outputs are full of before a call, NaN in every floating-point type, and
// what follows them.
const unset = 0xff

// repeated returns a call with the tokens of c so many times over, and what lies behind
// each of its outputs.
func repeated(t *testing.T, c *core.Call, times int) (large *core.Call, tails [][]byte) {
	t.Helper()
	large, err := core.NewCall(c.Op, c.Pass, c.Facts)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range args(c.Sig.In) {
		large.In[i] = c.In[i]
		if a.Shape[0] == core.DimT {
			large.In[i] = core.NewTensor(a.DType, a.Shape.Bind(times*c.Tokens(), 0)...)
			copy(large.In[i].Data, bytes.Repeat(c.In[i].Data, times))
		}
	}
	for i, a := range args(c.Sig.Out) {
		shape := a.Shape.Bind(times*c.Tokens(), 0)
		const behind = 64
		room := core.NewTensor(a.DType, shape.Elems()+behind)
		for i := range room.Data {
			room.Data[i] = unset
		}
		large.Out[i] = room.Slice(0, shape.Elems(), shape...)
		tails = append(tails, room.Slice(shape.Elems(), shape.Elems()+behind, behind).Data)
	}
	return large, tails
}

// args returns one argument for each tensor.
func args(sig []core.Arg) []core.Arg {
	var all []core.Arg
	for _, a := range sig {
		all = append(all, slices.Repeat([]core.Arg{a}, a.Count)...)
	}
	return all
}

// isRepeated reports whether x is part, over and over.
func isRepeated(x, part []byte) bool {
	for ; len(x) >= len(part) && bytes.Equal(x[:len(part)], part); x = x[len(part):] {
		if len(x) == len(part) {
			return true
		}
	}
	return false
}

// SameBitsKept compares the outputs of calls whose inputs stay as they are, for a kernel that keeps what it makes
// of them, with those of calls of which nothing tells that, and returns how many bytes it keeps of them.
func SameBitsKept(t *testing.T, k core.Kernel, c kerneltest.Case) (held int64) {
	t.Helper()
	forward, backward, err := kerneltest.Calls(t.Context(), k, c)
	if err != nil {
		t.Fatal(err)
	}
	before := keep.Held()
	for _, call := range []*core.Call{forward, backward} {
		var plain [][]byte
		for _, named := range []bool{false, true, true} {
			for i := range call.In {
				call.In[i].Content = 0
				if named {
					call.In[i].Content = uint64(1<<60 + i)
				}
			}
			if err := core.Run(t.Context(), k, call); err != nil {
				t.Fatal(err)
			}
			for i, y := range call.Out {
				if !named {
					plain = append(plain, bytes.Clone(y.Data))
				} else if !bytes.Equal(y.Data, plain[i]) {
					t.Errorf("%s has other bits where a weight is kept", call.Sig.Out[i].Name)
				}
			}
		}
	}
	return keep.Held() - before
}
