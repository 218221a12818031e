// Cuda_linear is a plugin of kernels for linear layers that computes their products on an NVIDIA device, with the CUDA
// driver and cuBLAS of the machine, loaded when it starts. Package cudalinear is the kernels.
package main

import (
	"fmt"
	"os"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/cuda_linear/cuda"
	"github.com/seed98097648/tune/plugins/cuda_linear/cudalinear"
)

func main() {
	plugin.ServeLoaded(cudalinear.Name, cudalinear.Version, func() ([]core.Kernel, error) {
		device, err := cuda.Open()
		if err != nil {
			return nil, err
		}
		device.Lost = func(err error) {
			fmt.Fprintf(os.Stderr, "%s: %v\n", cudalinear.Name, err)
			os.Exit(1)
		}
		return cudalinear.Kernels(device), nil
	})
}
