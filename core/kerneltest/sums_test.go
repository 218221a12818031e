package kerneltest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// summing is the reference of linear as a kernel that says that it can add dweight and dbias, which
// sum does: dst is what is there, and x what the reference writes.
type summing struct {
	core.Kernel
	sum func(add bool, dst, x []float32)
}

func (k summing) Info() core.Info {
	i := k.Kernel.Info()
	i.Adds, i.AddsTokens = []string{"dweight", "dbias"}, 300
	return i
}

func (k summing) Backward(ctx context.Context, c *core.Call) error {
	whole := *c
	whole.Add = make([]bool, len(c.Out))
	for i, x := range c.Out {
		whole.Add[i] = x.DType == core.Float32
	}
	apart, _, err := whole.Apart(nil)
	if err == nil {
		err = k.Kernel.Backward(ctx, apart)
	}
	for i, x := range c.Out {
		switch name := c.Sig.Out[i].Name; {
		case err != nil || !whole.Add[i]:
		case name == "dweight" || name == "dbias":
			k.sum(len(c.Add) > 0 && c.Add[i], x.Float32s(), apart.Out[i].Float32s())
		default:
			copy(x.Data, apart.Out[i].Data)
		}
	}
	return err
}

// addOrCopy is right.
func addOrCopy(add bool, dst, x []float32) {
	for i, v := range x {
		if add {
			v += dst[i]
		}
		dst[i] = v
	}
}

func TestKernelsThatAddAreFoundOut(t *testing.T) {
	cases := kerneltest.CasesFor(core.Linear, core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 9, Out: 5,
		Bias: true})
	for name, c := range map[string]struct {
		sum  func(add bool, dst, x []float32)
		want string
	}{
		"right":      {addOrCopy, ""},
		"overwrites": {func(_ bool, dst, x []float32) { copy(dst, x) }, "in a call that adds"},
		"adds twice": {func(add bool, dst, x []float32) {
			addOrCopy(add, dst, x)
			if add {
				addOrCopy(true, dst, x)
			}
		}, "in a call that adds"},
		"forgets the last": {func(add bool, dst, x []float32) {
			if addOrCopy(add, dst[:len(dst)-1], x[:len(x)-1]); !add {
				dst[len(dst)-1] = x[len(x)-1]
			}
		}, "in a call that adds"},
		"rounds what is there": {func(add bool, dst, x []float32) {
			for i, v := range dst {
				dst[i] = core.BFloat16ToFloat32(core.Float32ToBFloat16(v))
			}
			addOrCopy(add, dst, x)
		}, "in a call that adds"},
		"adds unasked": {func(_ bool, dst, x []float32) { addOrCopy(true, dst, x) }, "other bits"},
	} {
		t.Run(name, func(t *testing.T) {
			err := kerneltest.Check(summing{reference.Kernel(core.Linear), c.sum}, cases)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, core.ErrWrongResult) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestOneFlagForAllOutputsIsFoundOut: a kernel that adds to all outputs that it can if it is to add to any.
func TestOneFlagForAllOutputsIsFoundOut(t *testing.T) {
	cases := kerneltest.CasesFor(core.Linear, core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 9, Out: 5,
		Bias: true})
	err := kerneltest.Check(anyFlag{summing{reference.Kernel(core.Linear), addOrCopy}}, cases)
	if want := "in a call that adds"; !errors.Is(err, core.ErrWrongResult) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

// TestWhatIsThereBelongsToOneOutput: a kernel adds to each output what was there in the first.
func TestWhatIsThereBelongsToOneOutput(t *testing.T) {
	cases := kerneltest.CasesFor(core.Linear, core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 9, Out: 5,
		Bias: true})
	err := kerneltest.Check(firstForAll{summing{reference.Kernel(core.Linear), addOrCopy}}, cases)
	if want := "in a call that adds"; !errors.Is(err, core.ErrWrongResult) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

type firstForAll struct{ summing }

func (k firstForAll) Backward(ctx context.Context, c *core.Call) error {
	if c.Adds() {
		var first []float32
		for i, x := range c.Out {
			if c.Add[i] && first == nil {
				first = x.Float32s()
			} else if c.Add[i] {
				copy(x.Float32s(), first)
			}
		}
	}
	return k.summing.Backward(ctx, c)
}

type anyFlag struct{ summing }

func (k anyFlag) Backward(ctx context.Context, c *core.Call) error {
	other := *c
	if c.Adds() {
		other.Add = make([]bool, len(c.Out))
		for i, a := range c.Sig.Out {
			other.Add[i] = a.Name == "dweight" || a.Name == "dbias"
		}
	}
	return k.summing.Backward(ctx, &other)
}

// TestSumsOfOneThreadAreTried: a kernel adds rightly with its threads, and in its second process, with one, does not.
func TestSumsOfOneThreadAreTried(t *testing.T) {
	k := summing{reference.Kernel(core.Linear), addOrCopy}
	single := summing{reference.Kernel(core.Linear), func(add bool, dst, x []float32) {
		if addOrCopy(add, dst, x); add {
			dst[0] = math.Nextafter32(dst[0], 100)
		}
	}}
	r, err := kerneltest.Examine(t.Context(), k, kerneltest.Options{Quick: true, Calls: 1, Repeats: 1, Single: single,
		Facts: []core.Facts{{DType: core.Float32, WeightDType: core.Float32, Dim: 9, Out: 5, Bias: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if c := of(r, "one thread or more"); len(c) != 1 || !strings.Contains(fmt.Sprint(c[0].Err()), "in a call that adds") {
		t.Errorf("%v", c)
	}
}
