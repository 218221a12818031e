package kerneltest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

type runFunc func(c *core.Call) error

// faulty is a kernel with a planted bug around the right one.
type faulty struct {
	core.Kernel
	bug func(run runFunc, c *core.Call) error
}

func (k faulty) Forward(ctx context.Context, c *core.Call) error  { return k.run(ctx, c) }
func (k faulty) Backward(ctx context.Context, c *core.Call) error { return k.run(ctx, c) }

func (k faulty) run(ctx context.Context, c *core.Call) error {
	return k.bug(func(c *core.Call) error { return core.Run(ctx, k.Kernel, c) }, c)
}

// facts of the planted bugs, one use of each op.
var facts = map[core.Op]core.Facts{
	core.RMSNorm:    {DType: core.Float32, WeightDType: core.Float32, Dim: 65, Eps: 1e-5, Cast: core.CastBeforeWeight},
	core.SwiGLU:     {DType: core.Float32, Intermediate: 33, Activation: "silu", Layout: core.Packed},
	core.RoPE:       {DType: core.Float32, Pairing: core.Half, RotaryDim: 8, HeadDim: 12, Heads: 4, KVHeads: 2},
	core.AddRMSNorm: {DType: core.Float32, WeightDType: core.Float32, Dim: 65, Eps: 1e-5, Cast: core.CastBeforeWeight},
	core.MoEGate: {DType: core.Float32, Experts: 12, TopK: 3, Scoring: core.ScoringSigmoid, Bias: true,
		Groups: 4, TopGroups: 2, Normalize: true, Scale: 2.5},
	core.MoEExperts: {DType: core.Float32, WeightDType: core.Float32, Dim: 9, Intermediate: 5, Activation: "silu",
		Layout: core.Packed, Experts: 4, TopK: 2, Routing: core.RoutingNormalized},
}

// has reports whether the call has an output of that name.
func has(c *core.Call, output string) bool {
	return slices.ContainsFunc(c.Sig.Out, func(a core.Arg) bool { return a.Name == output })
}

func change(x core.Tensor, f func(v []float32)) {
	v := make([]float32, x.Elems())
	x.Load(v, 0)
	f(v)
	x.Store(v, 0)
}

// after plants a bug in an output that is otherwise right.
func after(output string, f func(c *core.Call, v []float32)) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		err := run(c)
		if err == nil && has(c, output) {
			change(c.Output(output), func(v []float32) { f(c, v) })
		}
		return err
	}
}

func outputsTimes(output string, by float64) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		err := run(c)
		if err == nil && has(c, output) {
			x := c.Output(output)
			for i := range x.Elems() {
				if x.DType == core.Float64 {
					x.Float64s()[i] *= by
				} else {
					x.Float32s()[i] *= float32(by)
				}
			}
		}
		return err
	}
}

// withFacts runs the call as if it had other facts.
func withFacts(f func(*core.Facts)) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		other := *c
		f(&other.Facts)
		return run(&other)
	}
}

// withInput runs the call with a changed copy of an input.
func withInput(name string, f func(c *core.Call, v []float32)) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		other := *c
		other.In = slices.Clone(c.In)
		x := core.NewTensor(c.Input(name).DType, c.Input(name).Shape...)
		copy(x.Data, c.Input(name).Data)
		change(x, func(v []float32) { f(c, v) })
		other.Set(name, x)
		return run(&other)
	}
}

// withInputOf is withInput in one pass.
func withInputOf(pass core.Pass, name string, f func(c *core.Call, v []float32)) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		if c.Pass != pass {
			return run(c)
		}
		return withInput(name, f)(run, c)
	}
}

func zeroes(_ *core.Call, v []float32) { clear(v) }

// afterIDs plants a bug in the indices that a forward pass gives.
func afterIDs(output string, f func(c *core.Call, ids []int32)) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		err := run(c)
		if err == nil && has(c, output) {
			f(c, c.Output(output).Int32s())
		}
		return err
	}
}

// beside returns the byte at an offset from the start of a tensor, which lies between
// guards.
func beside(x core.Tensor, offset int) *byte {
	return (*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(x.Data)), offset))
}

func swapHalves(width int) func(c *core.Call, v []float32) {
	return func(c *core.Call, v []float32) {
		for ; len(v) > 0; v = v[2*width:] {
			for i := range width {
				v[i], v[i+width] = v[i+width], v[i]
			}
		}
	}
}

func TestPlantedBugsAreCaught(t *testing.T) {
	calls := 0
	bf16 := func(f *core.Facts) { f.DType, f.WeightDType = core.BFloat16, core.BFloat16 }
	for _, b := range []struct {
		name string
		op   core.Op
		want string // part of the message
		bug  func(runFunc, *core.Call) error
		with func(*core.Facts)
	}{
		{"gradient off by a little", core.RMSNorm, "backward dx", outputsTimes("dx", 1+1e-5), nil},
		{"wrong weight gradient", core.RMSNorm, "backward dweight", outputsTimes("dweight", -1), nil},
		{"saved tensor wrong", core.RMSNorm, "forward rstd", outputsTimes("rstd", 1.01), nil},
		{"offset ignored", core.RMSNorm, "forward y", withFacts(func(f *core.Facts) { f.Offset = 1 - f.Offset }), nil},
		{"another epsilon", core.RMSNorm, "forward rstd", withFacts(func(f *core.Facts) { f.Eps = 2e-5 }), nil},
		{"cast order, half precision", core.RMSNorm, "rounded differently",
			withFacts(func(f *core.Facts) { f.Cast = core.CastAfterWeight }), bf16},
		{"cast order the other way", core.RMSNorm, "rounded differently",
			withFacts(func(f *core.Facts) { f.Cast = core.CastBeforeWeight }),
			func(f *core.Facts) { bf16(f); f.Cast = core.CastAfterWeight }},
		{"last row is the one before", core.RMSNorm, "forward y", after("y", func(c *core.Call, v []float32) {
			if D := c.Facts.Dim; len(v) > D {
				copy(v[len(v)-D:], v[len(v)-2*D:len(v)-D])
			}
		}), nil},
		{"NaN swallowed", core.RMSNorm, ": 0, want NaN", after("y", func(c *core.Call, v []float32) {
			for i := range v {
				if v[i] != v[i] {
					v[i] = 0
				}
			}
		}), nil},
		{"outputs mixed up", core.AddRMSNorm, "forward y", func(run runFunc, c *core.Call) error {
			err := run(c)
			if err == nil && c.Pass == core.Forward {
				y, h := c.Output("y").Float32s(), c.Output("h").Float32s()
				for i := range y {
					y[i], h[i] = h[i], y[i]
				}
			}
			return err
		}, nil},
		{"residual dropped", core.AddRMSNorm, "forward h", withInputOf(core.Forward, "residual", zeroes), nil},
		{"second output is x", core.AddRMSNorm, "forward h", func(run runFunc, c *core.Call) error {
			err := run(c)
			if err == nil && c.Pass == core.Forward {
				copy(c.Output("h").Data, c.Input("x").Data)
			}
			return err
		}, nil},
		{"gradient at h dropped", core.AddRMSNorm, "backward dx", withInputOf(core.Backward, "dh", zeroes), nil},
		{"bias weighs", core.MoEGate, "forward routing_weights", func(run runFunc, c *core.Call) error {
			err := run(c)
			if err == nil && c.Pass == core.Forward {
				for i, e := range c.Output("expert_ids").Int32s() {
					c.Output("routing_weights").Float32s()[i] += c.Input("bias").Float32s()[e]
				}
			}
			return err
		}, nil},
		{"bias ignored", core.MoEGate, "forward expert_ids", withInputOf(core.Forward, "bias", zeroes), nil},
		{"groups ignored", core.MoEGate, "forward expert_ids",
			withFacts(func(f *core.Facts) { f.TopGroups = f.Groups }), nil},
		{"not divided by the sum", core.MoEGate, "forward routing_weights",
			withFacts(func(f *core.Facts) { f.Normalize = false }), nil},
		{"not scaled", core.MoEGate, "forward routing_weights", withFacts(func(f *core.Facts) { f.Scale = 1 }), nil},
		{"softmax of the best only", core.MoEGate, "forward routing_weights",
			withFacts(func(f *core.Facts) { f.Normalize = true }),
			func(f *core.Facts) {
				f.Scoring, f.Normalize, f.Bias, f.Groups, f.TopGroups = core.ScoringSoftmax, false, false, 1, 1
			}},
		{"last of equal ones first", core.MoEGate, "ties: forward expert_ids",
			afterIDs("expert_ids", func(c *core.Call, ids []int32) {
				for i := 1; i < len(ids); i++ {
					logits := c.Input("logits").Float32s()[i/c.Facts.TopK*c.Facts.Experts:]
					if i%c.Facts.TopK > 0 && logits[ids[i]] == logits[ids[i-1]] {
						ids[i], ids[i-1] = ids[i-1], ids[i]
					}
				}
			}), nil},
		{"gradient of the weights only", core.MoEGate, "backward dlogits",
			withFacts(func(f *core.Facts) { f.Normalize = false }),
			func(f *core.Facts) { f.Scale = 1 }},
		{"gate and up swapped", core.SwiGLU, "forward y", withInput("gate_up", swapHalves(33)), nil},
		{"gradients of gate and up swapped", core.SwiGLU, "backward dgate_up", after("dgate_up", swapHalves(33)), nil},
		{"wrong pairing", core.RoPE, "forward q_out", withFacts(func(f *core.Facts) { f.Pairing = core.Interleaved }), nil},
		{"rotates the whole head", core.RoPE, "forward q_out", func(run runFunc, c *core.Call) error {
			err := run(c)
			if err == nil && c.Pass == core.Forward {
				c.Output("q_out").Float32s()[11] *= 1.1
			}
			return err
		}, nil},
		{"gradient rotates forward", core.RoPE, "backward dq", func(run runFunc, c *core.Call) error {
			if c.Pass == core.Forward {
				return run(c)
			}
			return withInput("sin", func(c *core.Call, v []float32) {
				for i := range v {
					v[i] = -v[i]
				}
			})(run, c)
		}, nil},
		{"routing weights of a token swapped", core.MoEExperts, "forward y",
			withInput("routing_weights", swapHalves(1)), nil},
		{"their gradients swapped", core.MoEExperts, "backward drouting_weights",
			after("drouting_weights", swapHalves(1)), nil},
		{"saved rows in another order", core.MoEExperts, "forward gate_up_out", after("gate_up_out", swapHalves(10)), nil},
		{"idle expert's gradient not zero", core.MoEExperts, "backward dgate_up",
			after("dgate_up", func(c *core.Call, v []float32) {
				v[0]++
			}), nil},
		{"output not written", core.SwiGLU, "was not written", func(run runFunc, c *core.Call) error {
			last := c.Out[0].Slice(c.Out[0].Elems()-1, c.Out[0].Elems(), 1)
			before := slices.Clone(last.Data)
			err := run(c)
			copy(last.Data, before)
			return err
		}, nil},
		{"writes past the end", core.SwiGLU, "wrote past the tensor", func(run runFunc, c *core.Call) error {
			*beside(c.Out[0], len(c.Out[0].Data)) = 1
			return run(c)
		}, nil},
		{"writes before the start", core.SwiGLU, "wrote past the tensor", func(run runFunc, c *core.Call) error {
			*beside(c.Out[0], -1) = 1
			return run(c)
		}, nil},
		{"writes to an input", core.SwiGLU, "wrote to an input", func(run runFunc, c *core.Call) error {
			err := run(c)
			c.In[0].Float32s()[0]++
			return err
		}, nil},
		{"reads what outputs held", core.SwiGLU, "other bits", func(run runFunc, c *core.Call) error {
			before := c.Out[0].Float32s()[0]
			err := run(c)
			c.Out[0].Float32s()[0] += before
			return err
		}, nil},
		{"not deterministic", core.SwiGLU, "other bits", func(run runFunc, c *core.Call) error {
			err := run(c)
			calls++
			c.Out[0].Float32s()[0] *= 1 + float32(calls%2)*1e-6
			return err
		}, nil},
		{"fails", core.SwiGLU, "no such luck", func(run runFunc, c *core.Call) error {
			return fmt.Errorf("no such luck")
		}, nil},
	} {
		t.Run(b.name, func(t *testing.T) {
			f := facts[b.op]
			if b.with != nil {
				b.with(&f)
			}
			err := kerneltest.Check(faulty{reference.Single(b.op), b.bug}, kerneltest.CasesFor(b.op, f))
			if err == nil || !strings.Contains(err.Error(), b.want) {
				t.Errorf("not caught: want a violation with %q, got %v", b.want, err)
			}
		})
	}
}

// refusesWithout says no without the error that makes a case a skip.
type refusesWithout struct{ core.Kernel }

func (refusesWithout) Supports(core.Facts) error { return fmt.Errorf("no") }

func TestRefusalWithoutErrNotSupportedIsAViolation(t *testing.T) {
	err := kerneltest.Check(refusesWithout{reference.Single(core.SwiGLU)},
		kerneltest.CasesFor(core.SwiGLU, facts[core.SwiGLU])[:1])
	if err == nil || !strings.Contains(err.Error(), "ErrNotSupported") {
		t.Errorf("error %v", err)
	}
}

// forwardOnly offers no gradient; calling it would fail.
type forwardOnly struct{ core.Kernel }

func (k forwardOnly) Info() core.Info {
	i := k.Kernel.Info()
	i.Backward = false
	return i
}

func (forwardOnly) Backward(context.Context, *core.Call) error { return fmt.Errorf("no gradient") }

func TestForwardOnlyKernelsAreNotAskedForGradients(t *testing.T) {
	if err := kerneltest.Check(forwardOnly{reference.Single(core.RoPE)},
		kerneltest.CasesFor(core.RoPE, facts[core.RoPE])); err != nil {
		t.Error(err)
	}
}
