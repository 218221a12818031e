package transport

import (
	"context"
	"fmt"
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/wire"
)

// kernel is the host's side of a kernel in a plugin.
type kernel struct {
	plugin *plugin
	number uint32 // its index in the plugin's list
	info   core.Info

	mu     sync.Mutex
	health core.Health
}

var (
	_ core.Kernel         = (*kernel)(nil)
	_ core.Verifier       = (*kernel)(nil)
	_ core.OutputMemory   = (*kernel)(nil)
	_ core.HealthReporter = (*kernel)(nil)
	_ core.Serial         = (*kernel)(nil)
)

// Info implements core.Kernel.
func (k *kernel) Info() core.Info { return k.info }

// Supports implements core.Kernel by asking the plugin.
func (k *kernel) Supports(f core.Facts) error { return k.plugin.supports(k, f) }

// Forward implements core.Kernel.
func (k *kernel) Forward(ctx context.Context, c *core.Call) error {
	return k.run(ctx, c, core.Forward, k.plugin.opts.Strict)
}

// Backward implements core.Kernel.
func (k *kernel) Backward(ctx context.Context, c *core.Call) error {
	return k.run(ctx, c, core.Backward, k.plugin.opts.Strict)
}

// OutputMemory implements core.OutputMemory: the memory that the plugin may write.
func (k *kernel) OutputMemory() core.Memory { return k.plugin.output }

// Series implements core.Serial: where there is a doorbell, the process runs calls of all its kernels one behind the
// other, but for those that add to outputs, which cannot be repeated.
func (k *kernel) Series(c *core.Call) (core.Series, core.Kernel) {
	if k.plugin.opts.Portable || c.Adds() {
		return nil, nil
	}
	return k.plugin.instance, k
}

// Health implements core.HealthReporter.
func (k *kernel) Health() core.Health {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.health
}

func (k *kernel) count(change func(*core.Health)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(&k.health)
}

// run checks what core.Run does not, and says whose error comes back. A call that did not
// come by core.Run is checked in the plugin's process all the same.
func (k *kernel) run(ctx context.Context, c *core.Call, pass core.Pass, strict bool) error {
	var err error
	switch {
	case c.Op != k.info.Op || c.Pass != pass:
		err = fmt.Errorf("%w: it is for %s %s", core.ErrBadCall, c.Op, c.Pass)
	case len(c.In)+len(c.Out) > wire.MaxTensors:
		err = fmt.Errorf("%w: %d tensors, at most %d fit a call", core.ErrBadCall, len(c.In)+len(c.Out), wire.MaxTensors)
	default:
		err = k.plugin.run(ctx, k, c, strict)
	}
	return k.named(ctx, c, err)
}

// named says whose error it is, unless that is the context's.
func (k *kernel) named(ctx context.Context, c *core.Call, err error) error {
	if err == nil || err == ctx.Err() {
		return err
	}
	return &core.KernelError{Kernel: k.info.Name, Op: k.info.Op, Pass: c.Pass, Site: c.Site, Err: err}
}
