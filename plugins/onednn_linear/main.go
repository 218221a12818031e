// Onednn_linear is a kernel plugin for the op linear that computes products in bfloat16 with the machine's own
// oneDNN, loaded when it starts. Package onednnlinear is the kernel.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/onednn_linear/onednn"
	"github.com/seed98097648/tune/plugins/onednn_linear/onednnlinear"
)

func main() {
	runtime.LockOSThread() // OpenMP has threads of its own for each thread that calls it
	library, err := onednn.Open()
	var kernel *onednnlinear.Kernel
	if err == nil {
		kernel, err = onednnlinear.New(library)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", onednnlinear.Name, err)
		os.Exit(1)
	}
	plugin.Serve(onednnlinear.Name, onednnlinear.Version, kernel)
}
