package cudalinear

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/ctest"
	"github.com/seed98097648/tune/internal/simd/simdtest"
	"github.com/seed98097648/tune/plugins/cuda_linear/cuda"
)

// open returns the machine's device if the environment names its libraries, else one in C that is none.
func open(t testing.TB) *cuda.Device {
	t.Helper()
	if os.Getenv(cuda.EnvBLAS) == "" {
		lib := filepath.Join(t.TempDir(), "libcuda.so")
		ctest.Shared(t, lib, "plugins/cuda_linear/testdata/cuda.c")
		t.Setenv(cuda.EnvDriver, lib)
		t.Setenv(cuda.EnvBLAS, lib)
	}
	d, err := cuda.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(d)
	return d
}

// TestConforms goes through all sizes but with qkv, which is three products of linear.
func TestConforms(t *testing.T) {
	for _, k := range Kernels(open(t)) {
		op := k.Info().Op
		t.Run(string(op), func(t *testing.T) {
			cases := kerneltest.Cases(op)
			if op != core.QKV {
				cases = append(cases, kerneltest.Sizes(op)...)
			}
			kerneltest.Run(t, k, cases)
		})
	}
}

func use(tokens int, f core.Facts) kerneltest.Case {
	f.DType = core.Float32
	if f.WeightDType == core.InvalidDType {
		f.WeightDType = core.Float32
	}
	return kerneltest.Case{Name: f.String(), Op: core.Linear, Tokens: tokens, Seed: 1, Facts: f}
}

// TestPiecesThatBeginWithinARow: a bias is added to them, and widened is what has a number for each row.
func TestPiecesThatBeginWithinARow(t *testing.T) {
	k := newLinear(open(t))
	var cases []kerneltest.Case
	for _, f := range []core.Facts{
		{Dim: 8, Out: 1000, Bias: true},
		{Dim: 1000, Out: 300, WeightDType: core.BFloat16},
		{Dim: 1000, Out: 300, WeightDType: core.Int8, Frozen: true},
		{Dim: 1000, Out: 300, WeightDType: core.NF4, Frozen: true},
	} {
		cases = append(cases, use(300, f))
	}
	kerneltest.Run(t, k, cases)
}

// TestWhatIsKeptGivesTheSameBits as what is loaded for each call.
func TestWhatIsKeptGivesTheSameBits(t *testing.T) {
	k := newLinear(open(t))
	if !k.Info().Keeps {
		t.Error("nobody would give its weights numbers: it does not say that it keeps them")
	}
	for _, w := range []core.DType{core.Float32, core.Float16, core.Int8, core.NF4} {
		simdtest.SameBitsKept(t, k, use(20, core.Facts{Dim: 70, Out: 130, WeightDType: w, Frozen: true, Rank: 5, Scale: 2}))
	}
}

// TestAWeightIsAllThatItIsMadeOf: with another scale it is another one.
func TestAWeightIsAllThatItIsMadeOf(t *testing.T) {
	k := newLinear(open(t))
	for _, w := range []core.DType{core.Int8, core.NF4} {
		c, _, err := kerneltest.Calls(t.Context(), k, use(3, core.Facts{Dim: 64, Out: 10, WeightDType: w, Frozen: true}))
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.In {
			c.In[i].Content = core.NewContent()
		}
		y := func() string {
			if err := core.Run(t.Context(), k, c); err != nil {
				t.Fatal(err)
			}
			return string(c.Output("y").Data)
		}
		before := y()
		scale := c.Input("weight_scale").Float32s()
		for i := range scale {
			scale[i] *= 2
		}
		for i, a := range c.Sig.In {
			if a.Name == "weight_scale" {
				c.In[i].Content = core.NewContent()
			}
		}
		if y() == before {
			t.Errorf("%s: the same y with another scale", w)
		}
	}
}

// TestNoTokens have no products: gradients of weights are zero, or what they are added to.
func TestNoTokens(t *testing.T) {
	k := newLinear(open(t))
	for _, add := range []bool{false, true} {
		c, err := core.NewCall(core.Linear, core.Backward, use(0, core.Facts{Dim: 3, Out: 2}).Facts)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range c.Sig.In {
			c.In[i] = core.NewTensor(a.DType, a.Shape.Bind(0, 0)...)
		}
		for i, a := range c.Sig.Out {
			c.Out[i] = core.NewTensor(a.DType, a.Shape.Bind(0, 0)...)
		}
		c.Add = make([]bool, len(c.Out))
		dw, want := c.Output("dweight").Float32s(), float32(0)
		for i := range dw {
			dw[i] = 7
		}
		if add {
			want = 7
			c.Add[1] = true
		}
		if err := core.Run(t.Context(), k, c); err != nil {
			t.Fatal(err)
		}
		if dw[0] != want || dw[5] != want {
			t.Errorf("add %t: dweight is %v, want %g", add, dw, want)
		}
	}
}
