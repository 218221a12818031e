package kerneltest_test

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// A kernel that mixes up its two inputs is found, and told where it is wrong.
func ExampleCheck() {
	f := core.Facts{DType: core.Float32, Intermediate: 2, Activation: "silu", Layout: core.Packed}
	swapped := faulty{reference.Kernel(core.SwiGLU), withInput("gate_up", swapHalves(2))}
	cases := kerneltest.CasesFor(core.SwiGLU, f)
	fmt.Println(kerneltest.Check(reference.Kernel(core.SwiGLU), cases))
	fmt.Println(kerneltest.Check(swapped, cases) != nil)
	// Output:
	// <nil>
	// true
}

// An author's formula of swiglu, and a kernel that agrees with it in y, dgate and dup.
func ExampleCheckOracle() {
	formula := func(_ core.Facts, in map[string][]float64) map[string][]float64 {
		y := make([]float64, len(in["gate"]))
		for i, g := range in["gate"] {
			y[i] = g / (1 + math.Exp(-g)) * in["up"][i]
		}
		return map[string][]float64{"y": y}
	}
	c := kerneltest.Case{Op: core.SwiGLU, Tokens: 3, Seed: 1,
		Facts: core.Facts{DType: core.Float32, Intermediate: 5, Activation: "silu", Layout: core.Separate}}
	fmt.Println(kerneltest.CheckOracle(context.Background(), reference.Single(core.SwiGLU), formula, c))
	// Output: <nil>
}

// A linked kernel is registered so that a plan compares it before it places it.
func ExampleVerified() {
	reg := core.NewRegistry()
	fmt.Println(reg.Register(kerneltest.Verified(reference.Single(core.RMSNorm))))
	_, checks := reg.Kernels()[0].(core.Verifier)
	fmt.Println(checks)
	// Output:
	// <nil>
	// true
}

// A kernel that mixes up its inputs does not pass for the facts of a model.
func ExampleVerify() {
	f := core.Facts{DType: core.Float32, Intermediate: 8, Activation: "silu", Layout: core.Packed}
	k := reference.Single(core.SwiGLU)
	fmt.Println(kerneltest.Verify(context.Background(), k, f))
	err := kerneltest.Verify(context.Background(), faulty{k, withInput("gate_up", swapHalves(8))}, f)
	fmt.Println(errors.Is(err, core.ErrWrongResult))
	// Output:
	// <nil>
	// true
}

// The gradients of a kernel are compared with finite differences of its own forward pass.
func ExampleGradCheck() {
	c := kerneltest.Case{Op: core.SwiGLU, Tokens: 2, Seed: 1,
		Facts: core.Facts{DType: core.Float32, Intermediate: 4, Activation: "silu", Layout: core.Separate}}
	fmt.Println(kerneltest.GradCheck(reference.Kernel(core.SwiGLU), c))
	// Output: <nil>
}
