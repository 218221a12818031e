package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed98097648/tune/core"
)

// maxDeaths is how often a plugin may die on one call before it is given up.
const maxDeaths = 3

// run runs a call, again if the process dies: inputs are not written while it runs, so
// the repeated call gives the same bits. One that adds to its outputs, of which the process
// may have done a part, is not repeated: its error wraps core.ErrSpoiled. What cannot be run in
// the plugin falls back to the reference, unless strict.
func (p *plugin) run(ctx context.Context, k *kernel, c *core.Call, strict bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	k.count(func(h *core.Health) { h.Calls++ })
	return p.settle(ctx, k, c, strict, p.attempt(ctx, k, c))
}

// settle does what is left to do about a call of which the first attempt ended so.
func (p *plugin) settle(ctx context.Context, k *kernel, c *core.Call, strict bool, err error) error {
	for deaths := 1; p.lost == nil && errors.Is(err, core.ErrPluginExited); deaths++ {
		k.count(func(h *core.Health) { h.Deaths++; h.LastError = err.Error() })
		if c.Adds() {
			p.opts.Logger.Warn("a plugin died while it was adding to gradients; they are computed again",
				"plugin", p.manifest.Name, "op", c.Op, "pass", c.Pass, "site", c.Site, "error", err)
			return fmt.Errorf("%w: %w", core.ErrSpoiled, err)
		}
		if deaths == maxDeaths {
			p.giveUp(fmt.Errorf("%w; it died %d times on one call", err, maxDeaths))
			break
		}
		p.opts.Logger.Warn(fmt.Sprintf("a plugin died during a call; it is started again and the call repeated "+
			"(after %d deaths on one call the plugin is not used any more)", maxDeaths),
			"plugin", p.manifest.Name, "op", c.Op, "pass", c.Pass, "site", c.Site, "error", err)
		k.count(func(h *core.Health) { h.Repeats++ })
		err = p.attempt(ctx, k, c)
	}
	if err == nil || err == ctx.Err() {
		return err
	}
	if p.lost != nil {
		err = p.lost
	}
	k.count(func(h *core.Health) { h.LastError = err.Error() })
	if p.closed || strict || p.lost == nil && !errors.Is(err, core.ErrNotSupported) {
		return err
	}
	return p.fallBack(ctx, k, c)
}

// attempt runs a call once, in the process that runs or in a new one. One that dies
// while it is started counts like one that dies later; any other reason why it cannot
// be started, such as an executable that has changed, means that the plugin is given up.
func (p *plugin) attempt(ctx context.Context, k *kernel, c *core.Call) error {
	if err := p.ensure(ctx, k); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if p.lost == nil && !p.closed && !errors.Is(err, core.ErrPluginExited) {
			p.giveUp(err)
		}
		return err
	}
	copies, err := p.invoke(ctx, k, c)
	if copies > 0 {
		k.count(func(h *core.Health) { h.Copies += uint64(copies) })
		p.sayCopied(c, copies)
	}
	if p.proc.stopped() {
		p.drop()
	}
	return err
}

// giveUp stops using the process for the rest of the run, and says so once.
func (p *plugin) giveUp(cause error) {
	p.drop()
	p.resting, p.lost = true, cause
	if !errors.Is(cause, core.ErrPluginExited) {
		p.lost = fmt.Errorf("%w: it cannot be started again: %w", core.ErrPluginExited, cause)
	}
	if p.opts.Strict {
		return // the caller gets the error
	}
	p.opts.Logger.Warn("a plugin is given up; the plain implementation replaces its kernels for the rest of the run, "+
		"slower, with results that are the same up to rounding",
		"plugin", p.manifest.Name, "path", p.manifest.Path, "error", p.lost)
}

// fallBack lets the reference answer a call.
func (p *plugin) fallBack(ctx context.Context, k *kernel, c *core.Call) error {
	ref := p.opts.Reference(c.Op)
	if ref == nil {
		return fmt.Errorf("transport: there is no reference for %s", c.Op)
	}
	k.count(func(h *core.Health) { h.Fallbacks++ })
	apart, _, err := c.Apart(nil) // the reference cannot add
	if err == nil {
		err = core.Run(ctx, ref, apart)
	}
	if err == nil {
		c.Join(apart)
	}
	return err
}
