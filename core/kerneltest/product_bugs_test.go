package kerneltest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// onlyIn is a bug of one output: the others are right.
func onlyIn(output string, bug func(runFunc, *core.Call) error) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		if !has(c, output) {
			return run(c)
		}
		if err := bug(run, c); err != nil {
			return err
		}
		wrong := slices.Clone(c.Output(output).Data)
		err := run(c)
		copy(c.Output(output).Data, wrong)
		return err
	}
}

// changed is withInput, for calls that have it.
func changed(name string, f func(c *core.Call, v []float32)) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		if !slices.ContainsFunc(c.Sig.In, func(a core.Arg) bool { return a.Name == name }) {
			return run(c)
		}
		return withInput(name, f)(run, c)
	}
}

// noScale runs the call with an adapter that is not scaled.
var noScale = withFacts(func(f *core.Facts) { f.Scale = min(1, f.Scale*f.Scale) })

// withoutRows makes the rows of an input zero that a loop over blocks of rows leaves over.
func withoutRows(name string, block int) func(runFunc, *core.Call) error {
	return changed(name, func(c *core.Call, v []float32) {
		if T := c.Tokens(); T > block {
			clear(v[T/block*block*len(v)/T:])
		}
	})
}

// withoutColumns makes the columns of an input zero that a loop over blocks of columns leaves over.
func withoutColumns(name string, block int) func(runFunc, *core.Call) error {
	return changed(name, func(c *core.Call, v []float32) {
		width := c.Input(name).Shape[1]
		for ; len(v) > 0 && width > block; v = v[width:] {
			clear(v[width/block*block : width])
		}
	})
}

func transposed(c *core.Call, v []float32) {
	was := slices.Clone(v)
	D, N := c.Facts.Dim, c.Facts.Out
	for d := range D {
		for n := range N {
			v[d*N+n] = was[n*D+d]
		}
	}
}

func addBias(c *core.Call, y []float32) {
	if !c.Facts.Bias {
		return
	}
	b := make([]float32, c.Facts.Out)
	c.Input("bias").Load(b, 0)
	for i := range y {
		y[i] += b[i%len(b)]
	}
}

// TestPlantedBugsOfProductsAreCaught: what kernels of products get wrong, in each pass and each
// output, is found by the ordinary cases.
func TestPlantedBugsOfProductsAreCaught(t *testing.T) {
	for _, b := range []struct {
		name string
		want string // part of the message
		bug  func(runFunc, *core.Call) error
	}{
		{"transposed dW", "backward dweight", after("dweight", transposed)},
		{"bias added twice", "forward y", after("y", addBias)},
		{"bias forgotten", "forward y", changed("bias", zeroes)},
		{"dbias summed twice", "backward dbias", outputsTimes("dbias", 2)},
		{"dbias without the rest of rows", "backward dbias", onlyIn("dbias", withoutRows("dy", 8))},
		{"scale of the adapter forgotten", "forward y", onlyIn("y", noScale)},
		{"scale forgotten in dx", "backward dx", onlyIn("dx", noScale)},
		{"scale forgotten in dA", "backward dlora_a", onlyIn("dlora_a", noScale)},
		{"scale forgotten in dB", "backward dlora_b", onlyIn("dlora_b", noScale)},
		{"adapter forgotten in dx", "backward dx", onlyIn("dx", changed("lora_a", zeroes))},
		{"tail of K forward", "forward y", onlyIn("y", withoutColumns("x", 16))},
		{"tail of K in dx", "backward dx", onlyIn("dx", withoutColumns("dy", 16))},
		{"tail of K in dW", "backward dweight", onlyIn("dweight", withoutRows("x", 16))},
		{"tail of K in dA", "backward dlora_a", onlyIn("dlora_a", withoutRows("x", 16))},
		{"tail of K in dB", "backward dlora_b", onlyIn("dlora_b", withoutRows("x", 16))},
		{"rows beyond a block", "forward y", onlyIn("y", withoutRows("x", 64))},
		{"rows beyond a block in dx", "backward dx", onlyIn("dx", withoutRows("dy", 64))},
		{"scales of other rows of int8", "forward y", changed("weight_scale", func(_ *core.Call, v []float32) {
			slices.Reverse(v)
		})},
		{"scales of int8 forgotten in dx", "backward dx",
			onlyIn("dx", changed("weight_scale", func(_ *core.Call, v []float32) {
				for i := range v {
					v[i] = 1
				}
			}))},
	} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			if err := finds(faulty{reference.Single(core.Linear), b.bug}, kerneltest.Cases(core.Linear), b.want); err != nil {
				t.Errorf("not caught: want a violation with %q, got %.2000v", b.want, err)
			}
		})
	}
}

// finds is nil if one of the cases fails with such a message; those after it are not run. Else it is what others said.
func finds(k core.Kernel, cases []kerneltest.Case, want string) error {
	others := errors.New("nothing found")
	for _, c := range cases {
		err := kerneltest.Check(k, []kerneltest.Case{c})
		if err != nil && strings.Contains(err.Error(), want) {
			return nil
		}
		if err != nil && !errors.Is(err, core.ErrNotSupported) {
			others = errors.Join(others, err)
		}
	}
	return others
}
