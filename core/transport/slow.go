package transport

import (
	"fmt"
	"time"

	"github.com/seed98097648/tune/core"
)

// slowAfter is when somebody is told that a plugin is waited for, and again each time that
// it has been waited for twice as long.
const slowAfter = 3 * time.Second

// What a plugin is taken to do in a second at least: a small part of what one core does, since other programs may have
// nearly all of the machine.
const (
	leastFlops = 4e9
	leastBytes = 200e6
)

// limit returns the most time that a call with so much to do may take: CallTimeout, or more if it is a large one.
func (o Options) limit(w core.Work) time.Duration {
	seconds := w.Flops()/leastFlops + float64(w.Bytes)/leastBytes
	return max(o.CallTimeout, time.Duration(seconds*float64(time.Second)).Round(time.Second))
}

// sayWaiting tells that a call is not answered yet, and what its limit is. A process that somebody has stopped is
// always told of; one that goes on only if it takes twice as long as any call was said to
// take, because large calls may be slow.
func (p *plugin) sayWaiting(c *core.Call, waited, limit time.Duration) {
	doing, stopped := p.proc.doing()
	if !stopped && waited < p.patience {
		return
	}
	if !stopped {
		p.patience = 2 * waited
	}
	text := fmt.Sprintf("waiting for a plugin's call; after %v it is ended and started again "+
		"(transport.Options.CallTimeout)", limit)
	p.opts.Logger.Warn(text, "plugin", p.manifest.Name, "op", c.Op, "pass", c.Pass, "site", c.Site,
		"waited", waited.Round(time.Second), "process", doing)
}

// sayCopied tells, once, that a call's tensors are copied, which no result shows and every
// call pays for.
func (p *plugin) sayCopied(c *core.Call, copies int) {
	if p.copied {
		return
	}
	p.copied = true
	p.opts.Logger.Warn("tensors are copied for a plugin's calls, as they are not in shared memory: "+
		"make inputs by core.NewTensorIn in a memory of transport.NewMemory, outputs in core.OutputsOf the kernel",
		"plugin", p.manifest.Name, "op", c.Op, "pass", c.Pass, "site", c.Site, "tensors", copies)
}

// sayIfSlow tells what is waited for if that takes long, until the function that it
// returns is called.
func (p *process) sayIfSlow(what string, doing func() (text string, stopped bool)) (stop func()) {
	t := time.AfterFunc(slowAfter, func() {
		doing, _ := doing()
		p.opts.Logger.Warn("waiting for a plugin: "+what, "path", p.path, "waited", slowAfter,
			"at_most", p.opts.StartTimeout, "process", doing)
	})
	return func() { t.Stop() }
}

// doing says what the process does, and whether that is nothing because somebody has
// stopped it.
func (p *process) doing() (text string, stopped bool) {
	pid := p.cmd.Process.Pid
	if isStopped(pid) {
		return fmt.Sprintf("%d, which is stopped: kill -CONT %d lets it go on", pid, pid), true
	}
	return fmt.Sprint(pid), false
}
