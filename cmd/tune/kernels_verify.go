package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/transport"
)

const kernelsVerifyLong = `Check that kernels do what they must: what the plugin says about itself; forward
and every gradient against the reference, in each storage type; edge cases such
as one token, odd sizes, experts without a token, NaN and infinity; that the same
call gives the same bits, whatever was called before; that nothing but outputs is
written, and all of them; that errors do not add up over 32 layers; that inputs
may be read-only; and that memory does not grow. A kernel is called in its own
process, and nothing stands in for it when it fails.

A NAME is looked up in the plugin folders; a PATH, which has a slash, is any
executable. Without either, every plugin that is found is checked. The exit code
is 1 if any rule is broken.`

// kernelsVerifyFlags are the values of the flags of "kernels verify".
type kernelsVerifyFlags struct {
	plugins pluginFlags
	ops     []string
	quick   bool
	timeout time.Duration
	json    bool
}

func (a *app) kernelsVerifyCommand() *Command {
	c := &Command{Name: "kernels verify", Usage: "[NAME|PATH...] [FLAGS]", Short: "check that kernels are right, in every case of the contract", Long: kernelsVerifyLong,
		Examples: "tune kernels verify\ntune kernels verify npu_fused_rope --json\ntune kernels verify ./my_rmsnorm --op rms_norm --quick\n"}
	v := &kernelsVerifyFlags{}
	v.add(c.Group("Flags"))
	c.finish()
	c.Run = func(ctx context.Context, args []string) error {
		if err := v.check(c); err != nil {
			return err
		}
		return a.verifyKernels(ctx, c, v, args)
	}
	return c
}

func (v *kernelsVerifyFlags) add(f *pflag.FlagSet) {
	v.plugins.add(f)
	f.StringSliceVar(&v.ops, "op", nil, "check only the kernels for these `OPS`, separated by commas")
	f.BoolVar(&v.quick, "quick", false, "check the usual kinds of use only, not each op's standard range of sizes")
	f.DurationVar(&v.timeout, "timeout", 10*time.Second, "the most `TIME` that one call may take; a plugin that takes longer is stopped")
	f.BoolVar(&v.json, "json", false, "write JSON, with every case")
}

// check validates everything that needs no plugin.
func (v *kernelsVerifyFlags) check(c *Command) error {
	if v.timeout <= 0 {
		return c.usagef("--timeout is %v, must be positive", v.timeout)
	}
	for _, op := range v.ops {
		if err := c.oneOf("op", op, opNames()...); err != nil {
			return err
		}
	}
	return nil
}

// wants reports whether any of the kernels is to be checked.
func (v *kernelsVerifyFlags) wants(kernels []core.Info) bool {
	return len(v.ops) == 0 || slices.ContainsFunc(kernels, func(i core.Info) bool { return slices.Contains(v.ops, string(i.Op)) })
}

// candidate is a plugin to verify, or a file that cannot be opened.
type candidate struct {
	path     string
	manifest core.Manifest
	kernels  []core.Kernel
	err      error
}

func (a *app) verifyKernels(ctx context.Context, c *Command, v *kernelsVerifyFlags, args []string) (err error) {
	all, done, err := a.candidates(ctx, c, v, args)
	defer func() { err = errors.Join(err, done()) }()
	if err != nil {
		return err
	}
	inputs, err := newMemory()
	if err != nil {
		return err
	}
	defer closing(inputs, &err)
	result := &verification{OK: true, Plugins: []verifiedPlugin{}}
	for _, p := range all {
		if len(args) == 0 && p.err == nil && !v.wants(p.manifest.Kernels) {
			continue
		}
		one, err := a.verifyPlugin(ctx, c, v, p, inputs)
		if err != nil {
			return err
		}
		result.add(one)
		if !v.json {
			one.print(a.stdout)
		}
	}
	if v.json {
		err = a.writeJSON(result)
	} else if len(result.Plugins) > 1 {
		result.printSummary(a.stdout)
	}
	if err == nil && !result.OK {
		err = errReported
	}
	return err
}

// candidates opens the plugins that the arguments name. The caller calls done.
func (a *app) candidates(ctx context.Context, c *Command, v *kernelsVerifyFlags, args []string) (all []candidate, done func() error, err error) {
	var open []interface{ Close() error }
	done = func() error {
		var errs []error
		for _, p := range open {
			errs = append(errs, p.Close())
		}
		return errors.Join(errs...)
	}
	o, err := v.plugins.prepare(transport.Options{Strict: true, CallTimeout: v.timeout, CacheDir: "off"})
	if err != nil {
		return nil, done, err
	}
	var reg *core.Registry
	if len(args) == 0 || slices.ContainsFunc(args, func(arg string) bool { return !isPath(arg) }) {
		if reg, err = v.plugins.scanWith(ctx, a, o); err != nil {
			return nil, done, err
		}
		open = append(open, reg)
	}
	if len(args) == 0 {
		all = everything(reg)
		if len(all) == 0 {
			err = fmt.Errorf("no usable plugin was found; \"tune kernels list\" says where they are looked for")
		}
		return all, done, err
	}
	for i, arg := range args {
		if slices.Contains(args[:i], arg) {
			continue
		}
		if !isPath(arg) {
			p, err := named(reg, arg)
			if err != nil {
				return nil, done, err
			}
			all = append(all, p)
			continue
		}
		p, plugin, err := a.openPath(ctx, c, arg, o)
		if err != nil {
			return nil, done, err
		}
		if plugin != nil {
			open = append(open, plugin)
		}
		all = append(all, p)
	}
	return all, done, nil
}

// isPath reports whether an argument names a file and not a plugin.
func isPath(arg string) bool {
	return strings.ContainsRune(arg, filepath.Separator) || strings.Contains(arg, "/")
}

// everything returns all that was found but data files.
func everything(reg *core.Registry) []candidate {
	var all []candidate
	for _, f := range reg.Listing() {
		switch {
		case f.Err == nil:
			p, err := named(reg, f.Manifest.Name)
			p.err = err
			all = append(all, p)
		case !isData(f.Path):
			all = append(all, candidate{path: f.Path, manifest: f.Manifest, err: f.Err})
		}
	}
	return all
}

// named looks a plugin up.
func named(reg *core.Registry, name string) (candidate, error) {
	kernels, err := reg.Lookup(name)
	if errors.Is(err, core.ErrUnknownKernel) {
		if info, statErr := os.Stat(name); statErr == nil && info.Mode().IsRegular() {
			err = fmt.Errorf("%w; for the file of that name, write .%c%s", err, filepath.Separator, name)
		}
	}
	if err != nil {
		return candidate{}, err
	}
	listing := reg.Listing()
	i := slices.IndexFunc(listing, func(f core.Found) bool { return f.Err == nil && f.Manifest.Name == name })
	return candidate{path: listing[i].Path, manifest: listing[i].Manifest, kernels: kernels}, nil
}

// openPath starts an executable. That it is not there is a mistake on the command line;
// that it cannot be used is a result.
func (a *app) openPath(ctx context.Context, c *Command, arg string, o transport.Options) (candidate, core.Plugin, error) {
	info, err := os.Stat(arg)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return candidate{}, nil, c.usagef("there is no file %s", arg)
	case err != nil:
		return candidate{}, nil, err
	case info.IsDir():
		return candidate{}, nil, c.usagef("%s is a folder; name a plugin in it, or check all with --plugin-dir %s", arg, arg)
	}
	path, err := filepath.Abs(arg)
	if err != nil {
		return candidate{}, nil, err
	}
	o.Logger = a.logger()
	p, err := o.Open(ctx, path)
	if ctx.Err() != nil {
		return candidate{}, nil, ctx.Err()
	}
	if err != nil {
		return candidate{path: path, err: err}, nil, nil
	}
	return candidate{path: path, manifest: p.Manifest(), kernels: p.Kernels()}, p, nil
}

// verifyPlugin examines the kernels of one plugin. An error means that it could not be
// done; what is wrong with the plugin is in the result.
func (a *app) verifyPlugin(ctx context.Context, c *Command, v *kernelsVerifyFlags, p candidate, inputs core.Memory) (verifiedPlugin, error) {
	one := verifiedPlugin{Path: p.path, Name: p.manifest.Name, Version: p.manifest.Version, Checksum: p.manifest.Checksum,
		OK: true, Manifest: []kerneltest.Violation{}, Kernels: []verifiedKernel{}}
	if p.err != nil {
		one.OK, one.Error = false, p.err.Error()
		return one, nil
	}
	one.Manifest = append(one.Manifest, kerneltest.CheckManifest(p.manifest)...)
	one.OK = len(one.Manifest) == 0
	for _, k := range p.kernels {
		info := k.Info()
		if !v.wants([]core.Info{info}) || !slices.Contains(core.Ops(), info.Op) {
			continue
		}
		a.note("verifying %s: %s", info.Name, info.Op)
		r, err := kerneltest.Examine(ctx, k, kerneltest.Options{Quick: v.quick, Facts: uses(info.Op), Inputs: inputs})
		if err != nil {
			return one, err
		}
		one.Kernels = append(one.Kernels, verifiedKernel{r, supports(k)})
		one.OK = one.OK && r.Count(kerneltest.Failed) == 0
	}
	if !v.wants(p.manifest.Kernels) {
		return one, c.usagef("%s has no kernel for %s; \"tune kernels inspect %s\" shows what it has", p.manifest.Name, strings.Join(v.ops, ", "), p.manifest.Name)
	}
	return one, nil
}
