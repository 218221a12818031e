package autograd_test

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// An operation says what it computes and what its gradient is; the graph does the rest.
func Example() {
	square := autograd.Op{Name: "sum_of_squares", Outputs: []autograd.Spec{autograd.Float32()},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			sum := float32(0)
			for _, x := range in[0].Float32s() {
				sum += x * x
			}
			out[0].Float32s()[0] = sum
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{0}, Wrt: []int{0}, Run: func(_ context.Context, g *autograd.Grads) error {
			for i, x := range g.In[0].Float32s() {
				g.DIn[0].Float32s()[i] = 2 * x * g.DOut[0].Float32s()[0]
			}
			return nil
		}}}

	g := autograd.New(autograd.Heap{})
	w := g.Param("w", core.FromFloat32([]float32{1, -2, 3}, 3))
	program, err := g.Compile(g.Apply(square, w), w)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer program.Close()
	loss, err := program.Forward(context.Background())
	if err == nil {
		err = program.Backward(context.Background())
	}
	fmt.Println(loss, program.Grad(w).Float32s(), err)
	// Output: 14 [2 -4 6] <nil>
}
