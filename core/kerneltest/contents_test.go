package kerneltest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// keeps runs the call with the weight that it keeps under a key, if the key is for keeping.
func keeps[K comparable](key func(c *core.Call, weight core.Tensor) (K, bool),
	keep func(weight core.Tensor) core.Tensor) func() func(runFunc, *core.Call) error {
	return func() func(runFunc, *core.Call) error {
		kept := map[K]core.Tensor{}
		return func(run runFunc, c *core.Call) error {
			w := c.Input("weight")
			k, ok := key(c, w)
			if !ok {
				return run(c)
			}
			if _, ok := kept[k]; !ok {
				kept[k] = keep(w)
			}
			other := *c
			other.In = append([]core.Tensor(nil), c.In...)
			other.Set("weight", kept[k])
			return run(&other)
		}
	}
}

func cloned(w core.Tensor) core.Tensor {
	x := core.NewTensor(w.DType, w.Shape...)
	copy(x.Data, w.Data)
	return x
}

func itself(w core.Tensor) core.Tensor { return w }

// keptFor keeps a weight in a form that it has for one token or for many, and spoils calls of the other kind that take
// it, if it was kept for the wrong ones.
func keptFor(wrong func(single bool) bool) func() func(runFunc, *core.Call) error {
	return func() func(runFunc, *core.Call) error {
		kept := map[uint64]bool{}
		return func(run runFunc, c *core.Call) error {
			n, single := c.Input("weight").Content, c.Tokens() == 1
			if n == 0 {
				return run(c)
			}
			if _, ok := kept[n]; !ok {
				kept[n] = single
			}
			if kept[n] != single && wrong(kept[n]) {
				return spoil(run, c)
			}
			return run(c)
		}
	}
}

// contentBugs are those of kernels that keep what they made of a weight for too long.
var contentBugs = map[string]struct {
	bug     func() func(runFunc, *core.Call) error
	want    string
	adapter bool
}{
	"a weight known by its address, once it has a number": {keeps(func(_ *core.Call, w core.Tensor) (*byte, bool) {
		return beside(w, 0), w.Content != 0
	}, cloned), "with other data at the same place, and other numbers: ", false},
	"a weight known by its address, if it is frozen and wide and there are many tokens": {keeps(func(c *core.Call,
		w core.Tensor) (*byte, bool) {
		f := c.Facts
		return beside(w, 0), w.Content != 0 && f.Frozen && f.Dim >= 264 && f.Out >= 272 && c.Tokens() >= 200
	}, cloned), "with other data at the same place, and other numbers: ", false},
	"no number taken for a number": {keeps(func(_ *core.Call, w core.Tensor) (uint64, bool) {
		return w.Content, true
	}, cloned), "without numbers, in the end: ", false},
	"a number changed and both ends the same": {keeps(func(_ *core.Call, w core.Tensor) ([2]float32, bool) {
		v := w.Float32s()
		return [2]float32{v[0], v[len(v)-1]}, w.Content != 0
	}, cloned), "with a number changed in the middle of each input, and other numbers: ", false},
	"a number changed where few are looked at": {keeps(func(_ *core.Call, w core.Tensor) ([3]float32, bool) {
		v := w.Float32s()
		var sum float32
		for i := 0; i < len(v); i += 16 {
			sum += v[i]
		}
		return [3]float32{sum, v[len(v)/2], v[len(v)-1]}, w.Content != 0
	}, cloned), "with a number changed in the middle of each input, and other numbers: ", false},
	"the place of a weight kept instead of the weight": {keeps(func(_ *core.Call, w core.Tensor) (uint64, bool) {
		return w.Content, w.Content != 0
	}, itself), "with the data and the numbers of the first call elsewhere: ", false},
	"a weight kept for many tokens, taken for one": {keptFor(func(single bool) bool { return !single }),
		"with one token and weight of the first call: ", false},
	"a weight kept for one token, taken for many": {keptFor(func(single bool) bool { return single }),
		"with more tokens and weight of the call with one: ", false},
	"one side of a square weight taken for the other": {func() func(runFunc, *core.Call) error {
		type side struct {
			content        uint64
			terms, columns int
		}
		kept := map[side]core.Pass{}
		return func(run runFunc, c *core.Call) error {
			of := side{c.Input("weight").Content, c.Facts.Dim, c.Facts.Out}
			if c.Pass == core.Backward {
				of.terms, of.columns = of.columns, of.terms
			}
			if _, ok := kept[of]; !ok {
				kept[of] = c.Pass
			}
			if of.content != 0 && kept[of] != c.Pass {
				return spoil(run, c)
			}
			return run(c)
		}
	}, "whose weight is square, and numbers: ", false},
	"an adapter known by the number of its weight": {func() func(runFunc, *core.Call) error {
		kept := map[uint64]core.Tensor{}
		return func(run runFunc, c *core.Call) error {
			n := c.Input("weight").Content
			if n == 0 {
				return run(c)
			}
			if kept[n].Data == nil {
				kept[n] = cloned(c.Input("lora_b"))
			}
			other := *c
			other.In = append([]core.Tensor(nil), c.In...)
			other.Set("lora_b", kept[n])
			return run(&other)
		}
	}, "with other data and numbers for all but weight: ", true},
}

const contentBugsOp = core.Linear

func contentFacts() core.Facts {
	return core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 17, Out: 9}
}

func TestKernelsThatKeepTooLongAreCaught(t *testing.T) {
	for name, b := range contentBugs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := faulty{reference.Single(contentBugsOp), b.bug()}
			f := contentFacts()
			if b.adapter {
				f.Rank, f.Scale = 3, 2
			}
			r := kerneltest.Contents(t.Context(), k, f)
			if r.Status != kerneltest.Failed || !strings.Contains(r.Err().Error(), b.want) {
				t.Errorf("%s, want %q: %.1000v", r.Status, b.want, r.Err())
			}
		})
	}
}

// biasOnThreads is a bug of a sum over tokens of which each thread has some columns, where there is work for several.
// Only a weight that is trained has a bias with a gradient.
const biasOnThreads = "columns of a bias that another thread adds up"

func TestWhatThreadsShareOutIsTriedForEachKindOfUse(t *testing.T) {
	biased := func(f core.Facts) bool { return f.Bias && f.Rank == 0 && f.DType == core.Float32 }
	k := choosy{faulty{reference.Single(core.Linear), func(run runFunc, c *core.Call) error {
		err := run(c)
		if n := c.Facts.Out; c.Pass == core.Backward && !c.Facts.Frozen && c.Facts.Bias && c.Tokens()*n > 1<<15 {
			clear(c.Output("dbias").Float32s()[n/2:])
		}
		return err
	}}, biased}
	var failed []string
	for _, r := range kerneltest.Threads(t.Context(), k, core.Float32) {
		if r.Status == kerneltest.Failed {
			failed = append(failed, fmt.Sprint(r.Violations))
		}
	}
	if len(failed) != 1 || !strings.Contains(failed[0], "dbias") {
		t.Errorf("%d cases have failed, want one, of dbias: %.1000v", len(failed), failed)
	}
}

// manyBugs are those of kernels that have room for less than there is.
var manyBugs = map[string]func() func(runFunc, *core.Call) error{
	"8 bits of a number": keeps(func(_ *core.Call, w core.Tensor) (uint8, bool) {
		return uint8(w.Content), w.Content != 0
	}, cloned),
	"16 bits of a number": keeps(func(_ *core.Call, w core.Tensor) (uint16, bool) {
		return uint16(w.Content), w.Content != 0
	}, cloned),
	"32 bits of a number": keeps(func(_ *core.Call, w core.Tensor) (uint32, bool) {
		return uint32(w.Content), w.Content != 0
	}, cloned),
	"a full table of 64 weights": func() func(runFunc, *core.Call) error {
		kept, last := map[uint64]core.Tensor{}, core.Tensor{}
		return func(run runFunc, c *core.Call) error {
			w := c.Input("weight")
			if w.Content == 0 {
				return run(c)
			}
			if _, ok := kept[w.Content]; !ok && len(kept) < 64 {
				last = cloned(w)
				kept[w.Content] = last
			}
			other := *c
			other.In = slices.Clone(c.In)
			if other.Set("weight", last); kept[w.Content].Data != nil {
				other.Set("weight", kept[w.Content])
			}
			return run(&other)
		}
	},
}

func TestKernelsWithRoomForFewAreCaught(t *testing.T) {
	for name, bug := range manyBugs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := faulty{reference.Single(contentBugsOp), bug()}
			r := kerneltest.ManyContents(t.Context(), k, contentFacts())
			if r.Status != kerneltest.Failed || !strings.Contains(r.Err().Error(), "with the inputs number ") {
				t.Errorf("%s: %.1000v", r.Status, r.Err())
			}
		})
	}
}

// TestABackwardPassBeforeAnyForwardPassIsTried: a kernel that prepares something in its first forward pass, and has it
// in no process that begins with a backward pass.
func TestABackwardPassBeforeAnyForwardPassIsTried(t *testing.T) {
	started := func() core.Kernel {
		begun := false
		return float32Only{faulty{narrowOnly(core.LinearCrossEntropy), func(run runFunc, c *core.Call) error {
			if begun = begun || c.Pass == core.Forward; begun {
				return run(c)
			}
			return spoil(run, c)
		}}}
	}
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 9, Vocab: 5}
	r, err := kerneltest.Examine(t.Context(), started(), kerneltest.Options{Quick: true, Facts: []core.Facts{f},
		Single: started(), Calls: 1, Repeats: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Results {
		if failed := c.Status == kerneltest.Failed; failed != (c.Kind == "one thread or more") {
			t.Errorf("%s: %s %.300v", c.Kind, c.Status, c.Err())
		}
	}
}

// TestKeepingByNumberIsRight: what was made of an input may be used wherever its number comes again.
func TestKeepingByNumberIsRight(t *testing.T) {
	right := keeps(func(_ *core.Call, w core.Tensor) (uint64, bool) { return w.Content, w.Content != 0 }, cloned)
	k := faulty{narrowOnly(contentBugsOp), right()}
	if r := kerneltest.Contents(t.Context(), k, contentFacts()); r.Status != kerneltest.OK {
		t.Error(r.Err())
	}
	if r := kerneltest.ManyContents(t.Context(), k, contentFacts()); r.Status != kerneltest.OK {
		t.Error(r.Err())
	}
	kept := map[uint64]core.Tensor{} // of all inputs, an adapter's too
	k = faulty{reference.Single(contentBugsOp), func(run runFunc, c *core.Call) error {
		other := *c
		other.In = slices.Clone(c.In)
		for i, x := range c.In {
			if x.Content == 0 {
				continue
			}
			if kept[x.Content].Data == nil {
				kept[x.Content] = cloned(x)
			}
			other.In[i] = kept[x.Content]
		}
		return run(&other)
	}}
	f := contentFacts()
	f.Rank, f.Scale = 3, 2
	if r := kerneltest.Contents(t.Context(), k, f); r.Status != kerneltest.OK {
		t.Errorf("of all inputs: %.1000v", r.Err())
	}
}

// TestWhatAForwardPassKeepsForAnotherBackwardPassIsCaught: dlora_b of the x of the last forward pass, which is that of
// another layer where two have the same sizes.
func TestWhatAForwardPassKeepsForAnotherBackwardPassIsCaught(t *testing.T) {
	f := contentFacts()
	f.Rank, f.Scale = 3, 2
	var last core.Tensor
	k := faulty{reference.Single(core.Linear), func(run runFunc, c *core.Call) error {
		if c.Pass == core.Forward {
			last = cloned(c.Input("x"))
			return run(c)
		}
		if err := run(c); err != nil || last.Data == nil || !slices.Equal(last.Shape, c.Input("x").Shape) {
			return err
		}
		other, _, err := c.Apart(nil)
		if err != nil {
			return err
		}
		other.In = slices.Clone(other.In)
		other.Set("x", last)
		if err := run(other); err != nil {
			return err
		}
		copy(c.Output("dlora_b").Data, other.Output("dlora_b").Data)
		return nil
	}}
	r := kerneltest.InTurn(t.Context(), k, f)
	if want := "backward after a forward pass with other data: "; r.Status != kerneltest.Failed ||
		!strings.Contains(r.Err().Error(), want) {
		t.Errorf("%s, want %q: %.1000v", r.Status, want, r.Err())
	}
}

// TestTheMemoryOfAForwardPassIsNoInputOfItsBackwardPass: it may be that of another layer by then, or be gone.
func TestTheMemoryOfAForwardPassIsNoInputOfItsBackwardPass(t *testing.T) {
	var last core.Tensor
	k := faulty{reference.Single(core.Linear), func(run runFunc, c *core.Call) error {
		if c.Pass == core.Forward {
			last = c.Input("x")
			return run(c)
		}
		other := *c
		other.In = slices.Clone(c.In)
		if slices.Equal(last.Shape, c.Input("x").Shape) {
			other.Set("x", last)
		}
		return run(&other)
	}}
	r := kerneltest.InTurn(t.Context(), k, contentFacts())
	if want := "backward after a forward pass with other data elsewhere: "; r.Status != kerneltest.Failed ||
		!strings.Contains(r.Err().Error(), want) {
		t.Errorf("%s, want %q: %.1000v", r.Status, want, r.Err())
	}
}

// TestAKernelOfInt8AloneIsTriedToo: one that keeps a weight too long, and takes those of int8 alone, which are frozen.
func TestAKernelOfInt8AloneIsTriedToo(t *testing.T) {
	bug := keeps(func(_ *core.Call, w core.Tensor) (*byte, bool) { return beside(w, 0), w.Content != 0 }, cloned)
	k := choosy{faulty{reference.Single(core.Linear), bug()}, func(f core.Facts) bool {
		return f.DType == core.Float32 && f.WeightDType == core.Int8 && f.Products == core.InvalidDType && f.Dim < 100
	}}
	wantKeptTooLong(t, k)
}

// TestWeightsThatAreStoredOtherwiseAreKeptRightly: the same of a kernel that takes others, too.
func TestWeightsThatAreStoredOtherwiseAreKeptRightly(t *testing.T) {
	bug := keeps(func(c *core.Call, w core.Tensor) (*byte, bool) {
		return beside(w, 0), w.Content != 0 && w.DType == core.Int8
	}, cloned)
	k := choosy{faulty{reference.Single(core.Linear), bug()}, func(f core.Facts) bool {
		return f.DType == core.Float32 && f.Products == core.InvalidDType && f.Rank == 0 && f.Dim < 100
	}}
	wantKeptTooLong(t, k)
}

// wantKeptTooLong wants Examine to find it.
func wantKeptTooLong(t *testing.T, k core.Kernel) {
	t.Helper()
	r, err := kerneltest.Examine(t.Context(), k, kerneltest.Options{Calls: 1, Repeats: 1})
	if err != nil {
		t.Fatal(err)
	}
	failed := func(c kerneltest.Result) bool { return c.Status == kerneltest.Failed }
	if !slices.ContainsFunc(of(r, "inputs known by number"), failed) {
		t.Error("not caught")
	}
}
