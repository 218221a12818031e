package kerneltest_test

import (
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

// contentBugs are those of kernels that keep what they made of a weight for too long.
var contentBugs = map[string]struct {
	bug  func() func(runFunc, *core.Call) error
	want string
}{
	"a weight known by its address, once it has a number": {keeps(func(_ *core.Call, w core.Tensor) (*byte, bool) {
		return beside(w, 0), w.Content != 0
	}, cloned), "with other data at the same place, and other numbers: "},
	"no number taken for a number": {keeps(func(_ *core.Call, w core.Tensor) (uint64, bool) {
		return w.Content, true
	}, cloned), "without numbers, in the end: "},
	"a number changed and both ends the same": {keeps(func(_ *core.Call, w core.Tensor) ([2]float32, bool) {
		v := w.Float32s()
		return [2]float32{v[0], v[len(v)-1]}, w.Content != 0
	}, cloned), "with a number changed in the middle of each input, and other numbers: "},
	"the place of a weight kept instead of the weight": {keeps(func(_ *core.Call, w core.Tensor) (uint64, bool) {
		return w.Content, w.Content != 0
	}, itself), "with the data and the numbers of the first call elsewhere: "},
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
			r := kerneltest.Contents(t.Context(), k, contentFacts())
			if r.Status != kerneltest.Failed || !strings.Contains(r.Err().Error(), b.want) {
				t.Errorf("%s, want %q: %.1000v", r.Status, b.want, r.Err())
			}
		})
	}
}

// TestKeepingByNumberIsRight: what was made of an input may be used wherever its number comes again.
func TestKeepingByNumberIsRight(t *testing.T) {
	right := keeps(func(_ *core.Call, w core.Tensor) (uint64, bool) { return w.Content, w.Content != 0 }, cloned)
	k := faulty{reference.Single(contentBugsOp), right()}
	if r := kerneltest.Contents(t.Context(), k, contentFacts()); r.Status != kerneltest.OK {
		t.Error(r.Err())
	}
}
