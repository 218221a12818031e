// Blas_linear is a plugin of kernels for the ops that are mostly products, which it computes with the machine's own
// BLAS, loaded when it starts. Package blaslinear is the kernels.
package main

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/blas_linear/blas"
	"github.com/seed98097648/tune/plugins/blas_linear/blaslinear"
)

func main() {
	plugin.ServeLoaded(blaslinear.Name, blaslinear.Version, func() ([]core.Kernel, error) {
		library, err := blas.Open()
		if err != nil {
			return nil, err
		}
		return blaslinear.Kernels(library), nil
	})
}
