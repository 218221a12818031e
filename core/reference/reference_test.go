package reference_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
)

// call returns a call with zeroed tensors for T tokens and P table rows.
func call(t *testing.T, op core.Op, pass core.Pass, f core.Facts, tokens, positions int) *core.Call {
	t.Helper()
	c, err := core.NewCall(op, pass, f)
	if err != nil {
		t.Fatal(err)
	}
	fill := func(args []core.Arg, tensors []core.Tensor) {
		for _, a := range args {
			for range a.Count {
				tensors[0] = core.NewTensor(a.DType, a.Shape.Bind(tokens, positions)...)
				tensors = tensors[1:]
			}
		}
	}
	fill(c.Sig.In, c.In)
	fill(c.Sig.Out, c.Out)
	return c
}

func run(t *testing.T, c *core.Call) {
	t.Helper()
	if err := core.Run(t.Context(), reference.Kernel(c.Op), c); err != nil {
		t.Fatal(err)
	}
}

func load(x core.Tensor) []float32 {
	v := make([]float32, x.Elems())
	x.Load(v, 0)
	return v
}

// TestCastOrderRoundsWhereItSays uses n = 1.00391 and weight 1.5. Rounded first, n
// becomes 1.0078125 and y = 1.5117 rounds to 1.515625; y = 1.50587 rounded once is 1.5078125.
func TestCastOrderRoundsWhereItSays(t *testing.T) {
	for cast, want := range map[core.CastOrder]float32{core.CastBeforeWeight: 1.515625, core.CastAfterWeight: 1.5078125} {
		f := core.Facts{DType: core.BFloat16, WeightDType: core.BFloat16, Dim: 2, Cast: cast}
		c := call(t, core.RMSNorm, core.Forward, f, 1, 0)
		c.Input("x").Store([]float32{1, 0.9921875}, 0)
		c.Input("weight").Store([]float32{1.5, 0}, 0)
		run(t, c)
		if y := load(c.Output("y"))[0]; y != want {
			t.Errorf("%s: y = %v, want %v", cast, y, want)
		}
	}
}

func TestLayoutsHoldTheSameNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(x core.Tensor) {
		for i, v := 0, x.Float32s(); i < len(v); i++ {
			v[i] = rng.Float32() - 0.5
		}
	}
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 4, Intermediate: 3, Activation: "silu",
		Layout: core.Packed, Experts: 3, TopK: 2, Routing: core.RoutingSoftmax}
	g := f
	g.Layout = core.PerExpert
	for _, pass := range []core.Pass{core.Forward, core.Backward} {
		packed, each := call(t, core.MoEExperts, pass, f, 2, 0), call(t, core.MoEExperts, pass, g, 2, 0)
		for _, a := range packed.Sig.In {
			if a.DType == core.Float32 {
				fill(packed.Input(a.Name))
			}
		}
		copy(packed.Input("expert_ids").Int32s(), []int32{2, 0, 0, 2})
		for _, a := range each.Sig.In {
			if a.Count == 1 {
				each.Set(a.Name, packed.Input(a.Name))
			}
		}
		for e := range f.Experts {
			both := packed.Input("gate_up").Float32s()[e*24:]
			copy(each.Inputs("gate")[e].Float32s(), both[:12])
			copy(each.Inputs("up")[e].Float32s(), both[12:24])
			copy(each.Inputs("down")[e].Float32s(), packed.Input("down").Float32s()[e*12:])
		}
		run(t, packed)
		run(t, each)
		if pass == core.Forward {
			if !slices.Equal(packed.Output("y").Float32s(), each.Output("y").Float32s()) {
				t.Error("y depends on the layout")
			}
			continue
		}
		var joined, downs []float32
		for e := range f.Experts {
			joined = append(append(joined, each.Outputs("dgate")[e].Float32s()...), each.Outputs("dup")[e].Float32s()...)
			downs = append(downs, each.Outputs("ddown")[e].Float32s()...)
		}
		if !slices.Equal(joined, packed.Output("dgate_up").Float32s()) ||
			!slices.Equal(downs, packed.Output("ddown").Float32s()) {
			t.Error("weight gradients depend on the layout")
		}
	}
}

func TestBadCallsAreRefused(t *testing.T) {
	rope := core.Facts{DType: core.Float32, Pairing: core.Half, RotaryDim: 2, HeadDim: 2, Heads: 1, KVHeads: 1}
	moe := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 2, Intermediate: 2, Activation: "silu",
		Layout: core.Packed, Experts: 3, TopK: 1, Routing: core.RoutingSoftmax}
	outside := func(op core.Op, f core.Facts, name string, id int32) *core.Call {
		c := call(t, op, core.Forward, f, 2, 3)
		c.Input(name).Int32s()[1] = id
		return c
	}
	short := call(t, core.RoPE, core.Forward, rope, 2, 3)
	short.Set("k", core.NewTensor(core.Float32, 1, 1, 2))
	for name, c := range map[string]*core.Call{
		"position past the tables": outside(core.RoPE, rope, "positions", 3),
		"negative position":        outside(core.RoPE, rope, "positions", -1),
		"expert that is not there": outside(core.MoEExperts, moe, "expert_ids", 3),
		"negative expert":          outside(core.MoEExperts, moe, "expert_ids", -1),
		"tokens disagree":          short,
	} {
		if err := core.Run(t.Context(), reference.Kernel(c.Op), c); !errors.Is(err, core.ErrBadCall) {
			t.Errorf("%s: error %v, want ErrBadCall", name, err)
		}
	}
	c := call(t, core.RoPE, core.Backward, rope, 1, 1)
	if err := reference.Kernel(core.RoPE).Forward(t.Context(), c); !errors.Is(err, core.ErrBadCall) {
		t.Errorf("backward call given to Forward: error %v, want ErrBadCall", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := core.Run(canceled, reference.Kernel(core.RoPE), c); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled call: error %v", err)
	}
}

func TestSupportsNamesTheFactAtFault(t *testing.T) {
	k := reference.Kernel(core.SwiGLU)
	ok := core.Facts{DType: core.Float64, Intermediate: 3, Activation: "silu", Layout: core.Packed}
	if err := k.Supports(ok); err != nil {
		t.Errorf("valid facts refused: %v", err)
	}
	gelu, empty := ok, core.Facts{}
	gelu.Activation = "gelu"
	for _, f := range []core.Facts{gelu, empty} {
		if err := k.Supports(f); !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("facts %v: error %v, want ErrNotSupported", f, err)
		}
	}
}

// TestNaNAndInfinityPassThrough pins what the formulas give at the edges.
func TestNaNAndInfinityPassThrough(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	f := core.Facts{DType: core.Float32, Intermediate: 5, Activation: "silu", Layout: core.Separate}
	c := call(t, core.SwiGLU, core.Forward, f, 1, 0)
	copy(c.Input("gate").Float32s(), []float32{inf, -inf, nan, 200, -200})
	copy(c.Input("up").Float32s(), []float32{1, 1, 1, 1, 1})
	run(t, c)
	want := []float32{inf, nan, nan, 200, 0}
	for i, y := range c.Output("y").Float32s() {
		if !(y == want[i] || y != y && want[i] != want[i]) {
			t.Errorf("silu of %v is %v, want %v", c.Input("gate").Float32s()[i], y, want[i])
		}
	}
}
