// Vandal is a plugin that is right until it is told to misbehave: then its rms_norm
// writes into its input, which the host shares for reading only. Tests start it.
package main

import (
	"context"
	"os"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/core/reference"
)

func main() { plugin.Serve("vandal", "0.1.0", &kernel{Kernel: reference.Kernel(core.RMSNorm)}) }

type kernel struct{ core.Kernel }

func (k *kernel) Info() core.Info {
	info := k.Kernel.Info()
	info.Name, info.Version = "vandal", "0.1.0"
	return info
}

// Forward writes into x while the file named by $VANDAL exists.
func (k *kernel) Forward(ctx context.Context, c *core.Call) error {
	if _, err := os.Stat(os.Getenv("VANDAL")); err == nil {
		c.Input("x").Float32s()[0] = 42
	}
	return k.Kernel.Forward(ctx, c)
}
