package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/os/shm"
)

// instance is an executable and, most of the time, a process that runs it: one plugin, or several that are built in.
type instance struct {
	opts     Options
	path     string   // of the executable
	names    []string // of the plugins, if they are built in
	checksum string
	output   *shm.Pool // all that the process may write; it outlives the process
	members  []*plugin
	about    []core.Manifest // what its first process said
	stayed   bool            // its last process did not end by itself

	mu    sync.Mutex // held during a call: a process runs one at a time
	proc  *process   // nil while there is none
	stage staging
	alone map[binding]bool // of what the process has died when it was bound for a series
}

// plugin is one of those that an instance is.
type plugin struct {
	*instance
	manifest core.Manifest
	kernels  []*kernel

	resting bool  // nobody needs the process for it
	lost    error // why the process is not started again for it, nil while it may be
	closed  bool

	copied    bool          // somebody was told that tensors are copied
	askDeaths int           // deaths in a row when it was asked what it supports
	patience  time.Duration // how long a call that goes on is waited for in silence
}

var (
	_ core.Plugin = (*plugin)(nil)
	_ core.Rester = (*plugin)(nil)
)

// Manifest implements core.Plugin.
func (p *plugin) Manifest() core.Manifest { return p.manifest }

// Kernels implements core.Plugin.
func (p *plugin) Kernels() []core.Kernel {
	out := make([]core.Kernel, len(p.kernels))
	for i, k := range p.kernels {
		out[i] = k
	}
	return out
}

// Close ends the process, when the last plugin is closed that it is, and gives its memory back. Tensors that lie in
// the plugin's memory must not be used any more.
func (p *plugin) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.dropUnneeded()
	for _, m := range p.members {
		if !m.closed {
			return nil
		}
	}
	return errors.Join(p.stage.memory.Close(), p.output.Close())
}

// Rest implements core.Rester.
func (p *plugin) Rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting = true
	p.dropUnneeded()
}

// dropUnneeded ends the process if none of the plugins needs it, and gives back what memory for calls is not in use.
func (i *instance) dropUnneeded() {
	for _, m := range i.members {
		if !m.resting && !m.closed {
			return
		}
	}
	i.drop()
	for _, pool := range []*shm.Pool{i.output, i.stage.memory} {
		if err := pool.Trim(); err != nil {
			i.opts.Logger.Debug("memory of a plugin was not given back", "plugin", i.members[0].manifest.Name, "error", err)
		}
	}
}

// drop forgets the process, ending it if it still runs.
func (i *instance) drop() {
	if i.proc != nil {
		i.proc.close()
		i.stayed = i.proc.stayed
		i.proc = nil
	}
}

// Stayed reports whether the process of a plugin that is closed had to be killed, as it did not end when the host
// closed its lifeline. By RPC it is not known.
func Stayed(p core.Plugin) bool {
	of, ok := p.(*plugin)
	if !ok {
		return false
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	return of.stayed
}

// ensure starts the process unless it runs. That one has died since it was last used is
// counted for the kernel that needs it now.
func (p *plugin) ensure(ctx context.Context, k *kernel) (err error) {
	if p.closed {
		return fmt.Errorf("transport: plugin %s is closed: close its registry after what calls its kernels, "+
			"or restore the plain forward first", p.manifest.Name)
	}
	if p.lost != nil {
		return p.lost
	}
	if p.proc != nil && p.proc.gone() {
		k.count(func(h *core.Health) { h.Deaths++ })
		p.opts.Logger.Warn("a plugin died between calls; it is started again",
			"plugin", p.manifest.Name, "error", p.proc.ended("its process ended"))
		p.drop()
	}
	p.resting = false
	if p.proc != nil {
		return nil
	}
	if p.proc, err = startProcess(ctx, p.instance); err != nil {
		return err
	}
	if err = p.isWhoItWas(p.proc.about); err != nil {
		p.drop()
	}
	return err
}

// isWhoItWas compares what the processes say about their plugins: kernels are known by their place there, and what
// they can do was planned with.
func (i *instance) isWhoItWas(about []core.Manifest) error {
	for n, was := range i.about {
		if differs := kerneltest.CompareManifests(was, about[n]); differs != "" {
			return fmt.Errorf("transport: %s: %w: started again, it says something else of itself: %s; its author must "+
				"offer the same kernels, in the same order, each time", i.path, core.ErrIncompatible, differs)
		}
	}
	return nil
}

// supports asks the process whether a kernel takes the facts.
func (p *plugin) supports(k *kernel, f core.Facts) error {
	if err := f.Validate(k.info.Op); err != nil {
		return fmt.Errorf("%w: %w", core.ErrNotSupported, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ensure(context.Background(), k); err != nil {
		return err
	}
	var a answer
	err := p.proc.request("its kernels", func(ctx context.Context) (err error) {
		a, err = p.proc.control.supports(ctx, k.number, f)
		return err
	})
	p.asked(k, err)
	if err != nil {
		return fmt.Errorf("transport: ask %s about %s: %w", p.manifest.Name, k.info.Op, err)
	}
	return statusError(a)
}

// asked takes note of how a question about facts ended. A plugin that dies again and
// again is given up: there may be hundreds of sites to ask about, and each may take as
// long as starting may.
func (p *plugin) asked(k *kernel, err error) {
	if !errors.Is(err, core.ErrPluginExited) {
		p.askDeaths = 0
		return
	}
	k.count(func(h *core.Health) { h.Deaths++ })
	p.drop()
	if p.askDeaths++; p.askDeaths == maxDeaths {
		p.giveUp(fmt.Errorf("%w; it died %d times in a row when asked what it supports", err, maxDeaths))
	}
}
