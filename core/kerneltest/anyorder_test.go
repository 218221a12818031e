package kerneltest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// keptBugs are bugs that show in some later call only. Each begins anew.
var keptBugs = map[string]func() func(runFunc, *core.Call) error{
	"every 1,000th call": func() func(runFunc, *core.Call) error {
		calls := 0
		return func(run runFunc, c *core.Call) error {
			if calls++; calls%1000 == 0 {
				return spoil(run, c)
			}
			return run(c)
		}
	},
	"a weight known by its address and first element": func() func(runFunc, *core.Call) error {
		type key struct {
			at    *byte
			first float32
		}
		kept := map[key][]byte{}
		return func(run runFunc, c *core.Call) error {
			x := c.Input("weight")
			if x.DType != core.Float32 {
				return run(c)
			}
			k := key{beside(x, 0), x.Float32s()[0]}
			if kept[k] == nil {
				kept[k] = append([]byte(nil), x.Data...)
			}
			other := *c
			other.In = append([]core.Tensor(nil), c.In...)
			other.Set("weight", core.Tensor{DType: x.DType, Shape: x.Shape, Data: kept[k]})
			return run(&other)
		}
	},
	"a weight known by its site": func() func(runFunc, *core.Call) error {
		kept := map[string]core.Tensor{}
		return func(run runFunc, c *core.Call) error {
			if c.Site == "" {
				return run(c)
			}
			other := *c
			other.In = append([]core.Tensor(nil), c.In...)
			key := c.Site + c.Facts.String()
			if kept[key].Data == nil {
				kept[key] = cloned(c.Input("weight"))
			}
			other.Set("weight", kept[key])
			return run(&other)
		}
	},
	"a buffer as long as the first call": func() func(runFunc, *core.Call) error {
		longest := 0
		return func(run runFunc, c *core.Call) error {
			if longest == 0 {
				longest = c.Tokens()
			}
			if c.Tokens() < longest {
				return spoil(run, c)
			}
			return run(c)
		}
	},
	"the backward pass of the last forward": func() func(runFunc, *core.Call) error {
		last := 0
		return func(run runFunc, c *core.Call) error {
			if c.Pass == core.Forward {
				last = c.Tokens()
			} else if last != c.Tokens() {
				return spoil(run, c)
			}
			return run(c)
		}
	},
}

const keptBugsOp = core.LinearCrossEntropy

func TestCallsInAnyOrderFindWhatIsKept(t *testing.T) {
	for name, bug := range keptBugs {
		t.Run(name, func(t *testing.T) {
			k := float32Only{faulty{reference.Single(keptBugsOp), bug()}}
			r := kerneltest.AnyOrder(context.Background(), k, core.Float32, 4000)
			if r.Status != kerneltest.Failed || !strings.Contains(r.Err().Error(), "of 4000, float32 ") {
				t.Errorf("%s: %v", r.Status, r.Err())
			}
		})
	}
	var before core.Facts
	k := float32Only{faulty{reference.Single(core.Linear), func(run runFunc, c *core.Call) error {
		adapter := before.Rank > 0
		if before = c.Facts; adapter && c.Facts.WeightDType == core.Int8 {
			return spoil(run, c)
		}
		return run(c)
	}}}
	if r := kerneltest.AnyOrder(context.Background(), k, core.Float32, 4000); r.Status != kerneltest.Failed {
		t.Error("int8 after an adapter is not found")
	}
	if r := kerneltest.AnyOrder(context.Background(), reference.Single(keptBugsOp),
		core.Float32, 400); r.Status != kerneltest.OK {
		t.Error(r.Err())
	}
}

// TestKernelsOfAPluginAreCalledInTurn: two that share a table, which the other fills for sizes of its own.
func TestKernelsOfAPluginAreCalledInTurn(t *testing.T) {
	filled := map[int]core.Op{}
	sharing := func(op core.Op) core.Kernel {
		return faulty{reference.Single(op), func(run runFunc, c *core.Call) error {
			if filled[c.Tokens()] == "" {
				filled[c.Tokens()] = op
			}
			if filled[c.Tokens()] != op {
				return spoil(run, c)
			}
			return run(c)
		}}
	}
	norm, swiglu := sharing(core.RMSNorm), sharing(core.SwiGLU)
	if r := kerneltest.AnyOrder(t.Context(), norm, core.Float32, 40); r.Status != kerneltest.OK {
		t.Error("alone: ", r.Err())
	}
	clear(filled)
	r := kerneltest.AnyOrder(t.Context(), norm, core.Float32, 40, swiglu)
	if r.Status != kerneltest.Failed || !strings.Contains(r.Err().Error(), " of 40, of swiglu, float32 ") &&
		!strings.Contains(r.Err().Error(), " of 40, float32 dim=") {
		t.Errorf("%s: %v", r.Status, r.Err())
	}
}

// serial is a kernel whose process takes series, which it does not run as it should.
type serial struct {
	core.Kernel
	runs   func(steps []core.Step) []core.Step
	series int
}

func (s *serial) Series(*core.Call) (core.Series, core.Kernel) { return s, s.Kernel }

func (s *serial) RunSeries(ctx context.Context, steps []core.Step, _ func(int, time.Duration)) (int, error) {
	s.series++
	for i, step := range s.runs(slices.Clone(steps)) {
		if err := core.Run(ctx, step.Kernel, step.Call); err != nil {
			return i, err
		}
	}
	return len(steps), nil
}

// TestSeriesThatAreNotDoneAreFound: each call by itself is right.
func TestSeriesThatAreNotDoneAreFound(t *testing.T) {
	for name, b := range map[string]struct {
		runs func(steps []core.Step) []core.Step
		want string
	}{
		"all":            {func(s []core.Step) []core.Step { return s }, ""},
		"the first":      {func(s []core.Step) []core.Step { return s[:1] }, "series 1, call 2 of "},
		"all but a last": {func(s []core.Step) []core.Step { return s[:len(s)-1] }, "series 1, call "},
		"the last first": {func(s []core.Step) []core.Step { slices.Reverse(s); return s },
			"series 1, of calls that take what those before them give, call 2 of 2, "},
		"64 at most": {func(s []core.Step) []core.Step { return s[:min(64, len(s))] }, "a long series, call 65 of 260, "},
	} {
		k := &serial{Kernel: reference.Single(core.RMSNorm), runs: b.runs}
		r := kerneltest.AnyOrder(t.Context(), k, core.Float32, 40)
		if r.Status != kerneltest.OK != (name != "all") || k.series == 0 {
			t.Errorf("%s of %d series: %v", name, k.series, r.Err())
		}
		if b.want != "" && !strings.Contains(r.Err().Error(), b.want) {
			t.Errorf("%s: want %q, got %v", name, b.want, r.Err())
		}
	}
}
