package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/core/trust"
	"github.com/seed98097648/tune/internal/amount"
)

const kernelsLockLong = `Write down which plugins may be started: the name, version, checksum and path of
each that is found, in a file that belongs under version control. While it is
there, every command refuses a plugin that has changed or is not listed, before
any of its code runs, and "tune kernels list" says what was locked and what is
there.

To ask plugins for their names they are started, the new ones too: before
--update-lock, look at what "tune kernels list" refuses, and where it is from.`

func (a *app) kernelsLockCommand() *Command {
	c := &Command{Name: "kernels lock", Usage: "[FLAGS]", Short: "write down which plugins may be started",
		Long:     kernelsLockLong,
		Examples: "tune kernels lock\ntune kernels lock --update-lock\n"}
	var p pluginFlags
	var update, asJSON bool
	f := c.Group("Flags")
	f.BoolVar(&update, "update-lock", false, "replace a lock that is there, and show what changes")
	f.BoolVar(&asJSON, "json", false, "write JSON")
	p.add(f)
	return c.finish(func(ctx context.Context, _ []string) error {
		if err := c.notStdout("file", "lock"); err != nil {
			return err
		}
		l, err := a.lock(ctx, &p, update)
		if err != nil {
			return err
		}
		if asJSON {
			return a.writeJSON(l)
		}
		l.print(a)
		return nil
	})
}

// locking is what "kernels lock --json" writes.
type locking struct {
	File    string         `json:"file"`
	Plugins []trust.Entry  `json:"plugins"`
	Changes []trust.Change `json:"changes"`

	isNew bool
}

// lock writes the lock file of all plugins that can be used.
func (a *app) lock(ctx context.Context, p *pluginFlags, update bool) (_ *locking, err error) {
	file, _ := trust.Locate(p.lock)
	if file == trust.Off {
		return nil, fmt.Errorf("--lock or $%s is %s, which names no file to write", trust.FileEnv, trust.Off)
	}
	old, err := trust.Read(file)
	isNew := errors.Is(err, fs.ErrNotExist)
	switch {
	case isNew:
		old = &trust.Lock{File: file}
	case err != nil:
		return nil, err
	case !update:
		return nil, fmt.Errorf("%s exists and locks %s; --update-lock replaces it and shows what changes", file,
			amount.Of(len(old.Entries), "plugin"))
	}
	// The lock that is there does not count, nor does a checksum that somebody has noted.
	o, err := p.options(transport.Options{CacheDir: "off"})
	if err != nil {
		return nil, err
	}
	reg, err := p.scanWith(ctx, a, o)
	if err != nil {
		return nil, err
	}
	defer closing(reg, &err)
	plugins := a.usable(reg)
	if len(plugins) == 0 {
		return nil, fmt.Errorf("a lock of no plugin would refuse all: %w", p.none())
	}
	now, err := trust.New(file, plugins)
	if err != nil {
		return nil, err
	}
	l := &locking{File: file, Plugins: now.Entries, Changes: trust.Changes(old.Entries, now.Entries), isNew: isNew}
	if !isNew && len(l.Changes) == 0 {
		return l, nil
	}
	return l, now.Write()
}

// usable returns the plugins that can be used, and notes those that cannot.
func (a *app) usable(reg *core.Registry) []core.Manifest {
	all := []core.Manifest{}
	for _, f := range reg.Listing() {
		switch {
		case f.Err == nil:
			all = append(all, f.Manifest)
		case !isData(f.Path):
			a.note("not locked, because it cannot be used: %v", f.Err)
		}
	}
	return all
}

func (l *locking) print(a *app) {
	switch {
	case l.isNew:
		fmt.Fprintf(a.stdout, "%s locks %s:\n", l.File, amount.Of(len(l.Plugins), "plugin"))
	case len(l.Changes) == 0:
		fmt.Fprintf(a.stdout, "%s is up to date; it locks %s\n", l.File, amount.Of(len(l.Plugins), "plugin"))
	default:
		fmt.Fprintf(a.stdout, "%s locks %s now:\n", l.File, amount.Of(len(l.Plugins), "plugin"))
	}
	for _, c := range l.Changes {
		fmt.Fprintf(a.stdout, "  %s\n", c)
	}
}
