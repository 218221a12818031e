// Misroute is a plugin whose moe_gate is right until it is told otherwise, and then gives
// tokens experts that do not exist, or one of them twice, or changes its mind after it has
// answered. Tests start it.
package main

import (
	"context"
	"os"
	"sync/atomic"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/core/reference"
)

func main() { plugin.Serve("misroute", "0.1.0", &kernel{Kernel: reference.Kernel(core.MoEGate)}) }

type kernel struct{ core.Kernel }

func (k *kernel) Info() core.Info {
	info := k.Kernel.Info()
	info.Name, info.Version = "misroute", "0.1.0"
	return info
}

// Forward does to the ids what the file named by $MISROUTE says, while it exists.
func (k *kernel) Forward(ctx context.Context, c *core.Call) error {
	err := k.Kernel.Forward(ctx, c)
	if err != nil {
		return err
	}
	ids := c.Output("expert_ids").Int32s()
	harm, _ := os.ReadFile(os.Getenv("MISROUTE"))
	switch last := &ids[len(ids)-1]; string(harm) {
	case "too large":
		*last = int32(c.Facts.Experts)
	case "negative":
		*last = -1
	case "twice":
		*last = ids[len(ids)-2]
	case "later":
		right := *last
		go func() {
			for {
				atomic.StoreInt32(last, 1<<30)
				atomic.StoreInt32(last, right)
			}
		}()
	}
	return nil
}
