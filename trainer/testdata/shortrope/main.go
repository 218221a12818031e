// Shortrope is a plugin whose rope is right in every call but those of 96 tokens, where it
// takes a position modulo 16: a fault that no check on made-up data can be sure to meet.
// Tests train with it.
package main

import (
	"context"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/core/reference"
)

func main() { plugin.Serve("shortrope", "0.1.0", &kernel{reference.Kernel(core.RoPE)}) }

type kernel struct{ core.Kernel }

func (k *kernel) Info() core.Info {
	info := k.Kernel.Info()
	info.Name, info.Version = "shortrope", "0.1.0"
	return info
}

func (k *kernel) Forward(ctx context.Context, c *core.Call) error {
	return k.Kernel.Forward(ctx, short(c))
}

func (k *kernel) Backward(ctx context.Context, c *core.Call) error {
	return k.Kernel.Backward(ctx, short(c))
}

// short returns the call with other positions.
func short(c *core.Call) *core.Call {
	positions := slices.Clone(c.Input("positions").Int32s())
	if len(positions) != 96 {
		return c
	}
	for i := range positions {
		positions[i] &= 15
	}
	with := *c
	with.In = slices.Clone(c.In)
	with.Set("positions", core.FromInt32(positions, len(positions)))
	return &with
}
