package kerneltest_test

import (
	"fmt"

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
