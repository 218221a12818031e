// Blas_linear is a plugin of kernels for the ops that are mostly products, which it computes with the machine's own
// BLAS, loaded when it starts. Package blaslinear is the kernels.
package main

import (
	"fmt"
	"os"

	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/blas_linear/blas"
	"github.com/seed98097648/tune/plugins/blas_linear/blaslinear"
)

func main() {
	library, err := blas.Open()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", blaslinear.Name, err)
		os.Exit(1)
	}
	plugin.Serve(blaslinear.Name, blaslinear.Version, blaslinear.Kernels(library)...)
}
