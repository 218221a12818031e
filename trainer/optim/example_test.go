package optim_test

import (
	"fmt"

	"github.com/seed98097648/tune/trainer/optim"
)

// The optimizer changes the parameters in place.
func ExampleOptimizer_Step() {
	value, grad := []float32{1, 1}, []float32{0.5, -0.5}
	adam, err := optim.New(optim.DefaultConfig(), []optim.Param{{Name: "w", Value: value, Grad: grad}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	adam.Step(0.1, 1)
	fmt.Printf("%.3f\n", value)
	// Output: [0.900 1.100]
}

// Gradients are scaled down to a norm of at most 1.
func ExampleClipCoefficient() {
	norm := optim.GlobalNorm([][]float32{{3}, {4}})
	fmt.Printf("%.0f %.2f\n", norm, optim.ClipCoefficient(norm, 1))
	// Output: 5 0.20
}
