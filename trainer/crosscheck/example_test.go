package crosscheck_test

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer/crosscheck"
)

// What a kernel has answered is compared with the plain formulas, on the call's own tensors.
func ExampleCompare() {
	facts := core.Facts{DType: core.Float32, Intermediate: 2, Activation: "silu", Layout: core.Separate}
	c, err := core.NewCall(core.SwiGLU, core.Forward, facts)
	if err != nil {
		fmt.Println(err)
		return
	}
	y := []float32{0, 0}
	c.Set("gate", core.FromFloat32([]float32{1, 2}, 1, 2))
	c.Set("up", core.FromFloat32([]float32{3, 4}, 1, 2))
	c.Set("y", core.FromFloat32(y, 1, 2))
	if err := core.Run(context.Background(), reference.Kernel(core.SwiGLU), c); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(crosscheck.Compare(c))
	y[1]++ // a kernel that is wrong
	fmt.Println(crosscheck.Compare(c) != nil)
	// Output:
	// <nil>
	// true
}
