// Unlucky is a plugin that is right until it is told not to be: then it dies in its shared_expert_ffn. Tests start it.
package main

import (
	"context"
	"os"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/core/reference"
)

func main() {
	plugin.Serve("unlucky", "0.1.0", &kernel{Kernel: reference.Kernel(core.SharedExpertFFN)})
}

type kernel struct{ core.Kernel }

func (k *kernel) Info() core.Info {
	info := k.Kernel.Info()
	info.Name, info.Version = "unlucky", "0.1.0"
	return info
}

// Forward ends the process while the file named by $UNLUCKY exists.
func (k *kernel) Forward(ctx context.Context, c *core.Call) error {
	if _, err := os.Stat(os.Getenv("UNLUCKY")); err == nil {
		os.Exit(3)
	}
	return k.Kernel.Forward(ctx, c)
}
