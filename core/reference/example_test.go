package reference_test

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
)

func ExampleKernel() {
	f := core.Facts{DType: core.Float32, Intermediate: 2, Activation: "silu", Layout: core.Separate}
	c, err := core.NewCall(core.SwiGLU, core.Forward, f)
	if err != nil {
		fmt.Println(err)
		return
	}
	y := make([]float32, 2)
	c.Set("gate", core.FromFloat32([]float32{0, 1}, 1, 2))
	c.Set("up", core.FromFloat32([]float32{5, 10}, 1, 2))
	c.Set("y", core.FromFloat32(y, 1, 2))
	fmt.Println(core.Run(context.Background(), reference.Kernel(core.SwiGLU), c), y)
	// Output: <nil> [0 7.310586]
}
