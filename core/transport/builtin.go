package transport

import (
	"context"
	"sync"

	"github.com/seed98097648/tune/core"
)

// OpenBuiltIn starts this program once more, as the plugins of these names, with default options. It is a
// core.BuiltInOpener.
func OpenBuiltIn(ctx context.Context, names []string) ([]core.Plugin, []error) {
	return Options{}.OpenBuiltIn(ctx, names)
}

var (
	_ core.BuiltInOpener = OpenBuiltIn
	_ core.BuiltInOpener = Options{}.OpenBuiltIn
)

// builtInName is what lists of processes show of a process that is several built-in plugins.
const builtInName = "tune_kernels"

// OpenBuiltIn starts this program once more, which must call plugin.ServeBuiltIn then, as the plugins of these
// names. It is a core.BuiltInOpener. They share a process, so that a call of one can follow a call of another
// without the host between them, and the memory for outputs. Should the process die in a kernel of one, the others
// lose nothing: it is started again, and if one is given up, the others are not. Where MaxMemory or MaxCPUs
// limits a plugin, each has a process of its own.
func (o Options) OpenBuiltIn(ctx context.Context, names []string) ([]core.Plugin, []error) {
	plugins, errs := make([]core.Plugin, len(names)), make([]error, len(names))
	if o.MaxMemory > 0 || o.MaxCPUs > 0 {
		var wg sync.WaitGroup
		for n, name := range names {
			wg.Go(func() { plugins[n], errs[n] = o.Open(ctx, core.BuiltIn+name) })
		}
		wg.Wait()
		return plugins, errs
	}
	o, err := o.ready()
	i := newInstance(o, core.BuiltIn+builtInName)
	i.names = names
	if err == nil {
		err = i.open(ctx, func(sum string) error { return o.allow(names, sum, errs) })
	}
	for n, name := range names {
		if errs[n] == nil && err != nil {
			errs[n] = err
		}
		if errs[n] != nil {
			continue
		}
		p, err := i.admit(core.BuiltIn+name, n)
		if errs[n] = err; err == nil { // or else there would be a plugin that is a nil pointer
			plugins[n] = p
		}
	}
	if len(i.members) == 0 && i.proc != nil {
		i.proc.end()
	}
	return plugins, errs
}

// allow says that a lock does not list the checksum that all these plugins have, each in its own words.
func (o Options) allow(names []string, sum string, errs []error) (err error) {
	if o.Lock == nil {
		return nil
	}
	for n, name := range names {
		errs[n] = o.Lock.Allow(core.BuiltIn+name, sum)
		err = errs[n]
	}
	return err
}
