// Onednn_linear is a kernel plugin for the op linear that computes products in bfloat16 with the machine's own
// oneDNN, loaded when it starts. Package onednnlinear is the kernel.
package main

import (
	"runtime"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/onednn_linear/onednn"
	"github.com/seed98097648/tune/plugins/onednn_linear/onednnlinear"
)

func main() {
	runtime.LockOSThread() // OpenMP has threads of its own for each thread that calls it
	plugin.ServeLoaded(onednnlinear.Name, onednnlinear.Version, func() ([]core.Kernel, error) {
		library, err := onednn.Open()
		if err != nil {
			return nil, err
		}
		kernel, err := onednnlinear.New(library)
		return []core.Kernel{kernel}, err
	})
}
