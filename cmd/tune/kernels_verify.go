package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/os/memory"
)

const kernelsVerifyLong = `Check that kernels do what they must: what the plugin says about itself; forward
and every gradient against the reference, in each storage type; every size that
blocks leave a rest of, and sizes past tables, buffers and 16 bits; experts
without a token, NaN, infinity and the ends of arithmetic; that the same call
gives the same bits, whatever was called before and with any number of threads
(unless it says that they depend on that); that all of the outputs and nothing
else is written; that errors do not add up over 32 layers; that inputs may be
read-only; that memory does not grow; and that no descriptor, thread, process or
file is left behind. A kernel is called in its own process, and nothing stands
in for it when it fails.

A NAME is looked up in the plugin folders; a PATH, which has a slash, is any
executable. Without either, every plugin that is found is checked. The exit code
is 1 if any rule is broken. docs/verify.md has the rules.`

// kernelsVerifyFlags are the values of the flags of "kernels verify".
type kernelsVerifyFlags struct {
	plugins pluginFlags
	ops     []string
	quick   bool
	large   bool
	// Which cases, and which of them not: text or a regular expression; "" for all, and for none.
	only, skip string
	timeout    time.Duration
	json       bool
}

func (a *app) kernelsVerifyCommand() *Command {
	c := &Command{Name: "kernels verify", Usage: "[NAME|PATH...] [FLAGS]", Args: true,
		Short: "check that kernels are right, in every case of the contract", Long: kernelsVerifyLong,
		Examples: "tune kernels verify\ntune kernels verify npu_fused_rope --json\ntune kernels verify ./my_rmsnorm --op " +
			"rms_norm --quick\n"}
	v := &kernelsVerifyFlags{}
	v.add(c.Group("Flags"))
	return c.finish(func(ctx context.Context, args []string) error {
		if err := v.check(c); err != nil {
			return err
		}
		return a.verifyKernels(ctx, c, v, args)
	})
}

func (v *kernelsVerifyFlags) add(f *pflag.FlagSet) {
	v.plugins.add(f)
	f.StringSliceVar(&v.ops, "op", nil, "check only the kernels for these `OPS`, separated by commas")
	f.BoolVar(&v.quick, "quick", false, "check the usual kinds of use only, not each op's standard range of sizes")
	f.BoolVar(&v.large, "large", false, "also run calls with more than 2^31 elements, where the op allows it and 9 to "+
		"18 GB of memory are free")
	f.StringVar(&v.only, "case", "", "check only the cases whose kind, as the table has it, or whose name has the text "+
		"`PATTERN`, or what it matches as a regular expression")
	f.StringVar(&v.skip, "skip-case", "", "leave out the cases that `PATTERN` matches so")
	f.DurationVar(&v.timeout, "call-timeout", 10*time.Second,
		"the most `TIME` that one call may take; a plugin that takes longer is stopped")
	f.BoolVar(&v.json, "json", false, "write JSON, with every case")
}

// check validates everything that needs no plugin.
func (v *kernelsVerifyFlags) check(c *Command) error {
	if v.timeout <= 0 {
		return c.usagef("--call-timeout is %v, must be positive", v.timeout)
	}
	for _, op := range v.ops {
		if err := c.oneOf("op", op, opNames()...); err != nil {
			return err
		}
	}
	return nil
}

// wantsCase returns what decides which cases are run, or nil for all.
func (v *kernelsVerifyFlags) wantsCase() func(kind, name string) bool {
	if v.inPart() == "" {
		return nil
	}
	only, skip := textOrExpression(v.only), textOrExpression(v.skip)
	return func(kind, name string) bool {
		return (only.MatchString(kind) || only.MatchString(name)) &&
			(v.skip == "" || !skip.MatchString(kind) && !skip.MatchString(name))
	}
}

// textOrExpression matches text, and what that matches as a regular expression, if it is one.
func textOrExpression(pattern string) *regexp.Regexp {
	text := regexp.QuoteMeta(pattern)
	if r, err := regexp.Compile(pattern + "|" + text); err == nil {
		return r
	}
	return regexp.MustCompile(text)
}

// inPart is with which flags not all cases are run; "" if all are.
func (v *kernelsVerifyFlags) inPart() string {
	var all []string
	if v.only != "" {
		all = append(all, "--case '"+v.only+"'")
	}
	if v.skip != "" {
		all = append(all, "--skip-case '"+v.skip+"'")
	}
	return strings.Join(all, " ")
}

// wants reports whether any of the kernels is to be checked.
func (v *kernelsVerifyFlags) wants(kernels ...core.Info) bool {
	return len(v.ops) == 0 || slices.ContainsFunc(kernels, func(i core.Info) bool {
		return slices.Contains(v.ops, string(i.Op))
	})
}

// candidate is a plugin to verify, or a file that the scan could not use.
type candidate struct {
	path string
	err  error
}

func (a *app) verifyKernels(ctx context.Context, c *Command, v *kernelsVerifyFlags, args []string) error {
	memory.Spend()
	o, err := v.plugins.prepare(transport.Options{Strict: true, CallTimeout: v.timeout, CacheDir: "off"})
	if err != nil {
		return err
	}
	all, err := a.candidates(ctx, c, v, o, args)
	if err != nil {
		return err
	}
	result := &verification{OK: true, Part: v.inPart(), Plugins: []verifiedPlugin{}}
	for _, p := range all {
		one, err := a.verifyPlugin(ctx, v, o, p)
		if err != nil {
			return err
		}
		if one.unwanted && len(args) == 0 {
			continue
		}
		if one.unwanted {
			return c.usagef("%s has no kernel for %s; %s shows what it has", one.Name, strings.Join(v.ops, ", "),
				v.plugins.command("kernels inspect "+one.Name))
		}
		result.add(one)
		if !v.json && !(result.Part != "" && one.none()) {
			one.print(a.stdout, result.Part)
		}
	}
	if result.Part != "" && result.none() {
		return c.usagef("there is no case with %s; without that, the first column of the table has their kinds", result.Part)
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

// candidates finds the executables that the arguments name. The plugins that a scan opens
// are closed again: each is verified in a process of its own, one after the other.
func (a *app) candidates(ctx context.Context, c *Command, v *kernelsVerifyFlags, o transport.Options,
	args []string) (all []candidate, err error) {
	var reg *core.Registry
	if len(args) == 0 || slices.ContainsFunc(args, func(arg string) bool { return !isPath(arg) }) {
		if reg, err = v.plugins.scanWith(ctx, a, o); err != nil {
			return nil, err
		}
		defer closing(reg, &err)
	}
	if len(args) == 0 {
		for _, f := range reg.Listing() {
			if f.Err == nil || !isData(f.Path) {
				all = append(all, candidate{f.Path, f.Err})
			}
		}
		if len(all) == 0 {
			return nil, v.plugins.none()
		}
		return all, nil
	}
	for i, arg := range args {
		if slices.Contains(args[:i], arg) {
			continue
		}
		var path string
		if isPath(arg) {
			path, err = c.file(arg)
		} else {
			path, err = named(reg, arg)
			err = v.plugins.missing(arg, err)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, candidate{path: path})
	}
	return all, nil
}

// isPath reports whether an argument names a file and not a plugin.
func isPath(arg string) bool {
	return strings.ContainsRune(arg, filepath.Separator) || strings.Contains(arg, "/")
}

// named returns the path of a plugin.
func named(reg *core.Registry, name string) (string, error) {
	_, err := reg.Lookup(name)
	if errors.Is(err, core.ErrUnknownKernel) {
		if info, statErr := os.Stat(name); statErr == nil && info.Mode().IsRegular() {
			err = fmt.Errorf("%w; for the file of that name, write .%c%s", err, filepath.Separator, name)
		}
	}
	plugin, _ := reg.Find(name)
	return plugin.Path, err
}

// file returns the absolute path of a file that exists.
func (c *Command) file(arg string) (string, error) {
	info, err := os.Stat(arg)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", c.usagef("there is no file %s", arg)
	case err != nil:
		return "", err
	case info.IsDir():
		return "", c.usagef("%s is a folder; name a file in it, or the plugins that it has with --plugin-dir %s", arg, arg)
	}
	return filepath.Abs(arg)
}

// verifyPlugin examines the kernels of a plugin, and then what it has left behind. An error
// means that it could not be done; what is wrong with the plugin is in the result.
func (a *app) verifyPlugin(ctx context.Context, v *kernelsVerifyFlags, o transport.Options,
	c candidate) (one verifiedPlugin, err error) {
	s, err := newVicinity(c.path)
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	// Garbage that is collected late, as $GOGC may have it here, would look like memory that calls leave behind.
	o.Env = slices.Concat([]string{"GOGC="}, o.Env, []string{s.env()})
	if one, err = a.verifyKernelsOf(ctx, v, o, c); err != nil || one.unwanted {
		return one, err
	}
	left, notRun := s.look()
	if len(one.opened) > 1 && !slices.ContainsFunc(one.opened, func(p core.Plugin) bool { return !transport.Stayed(p) }) {
		left = append(left, kerneltest.Violation{Text: "its process does not end when the host closes the lifeline, and " +
			"is killed after 2 s, which every run waits for"})
	}
	one.Left, one.LeftUnknown = append(one.Left, left...), notRun
	one.OK = one.OK && len(left) == 0
	return one, nil
}

// verifyKept is how many bytes the process with one thread may keep of its inputs: enough for all cases but the one
// that has too many.
const verifyKept = 16 << 20

// verifyThreads is more than many machines have processors, and than some calls have rows, and divides few numbers.
const verifyThreads = 7

// verifyKernelsOf opens a plugin, examines its kernels, and closes it.
func (a *app) verifyKernelsOf(ctx context.Context, v *kernelsVerifyFlags, o transport.Options,
	c candidate) (one verifiedPlugin, err error) {
	one = verifiedPlugin{Path: c.path, Manifest: []kerneltest.Violation{}, Left: []kerneltest.Violation{},
		Kernels: []verifiedKernel{}}
	o.Logger = a.logger()
	var p core.Plugin
	if c.err == nil {
		p, c.err = o.Open(ctx, c.path)
	}
	if err := ctx.Err(); err != nil {
		return one, err
	}
	if c.err != nil {
		one.Error = c.err.Error()
		return one, nil
	}
	defer closing(p, &err)
	one.opened = append(one.opened, p)
	m := p.Manifest()
	one.Name, one.Version, one.Checksum = m.Name, m.Version, m.Checksum
	if one.unwanted = !v.wants(m.Kernels...); one.unwanted {
		return one, nil
	}
	inputs, err := newMemory()
	if err != nil {
		return one, err
	}
	defer closing(inputs, &err)
	one.Manifest = append(one.Manifest, kerneltest.CheckManifest(m)...)
	one.OK = len(one.Manifest) == 0
	examine := kerneltest.Options{Quick: v.quick, Wants: v.wantsCase(), Inputs: inputs, Kept: verifyKept}
	if v.large {
		examine.Room = memory.Available()
	}
	single, err := one.another(ctx, o, m, 1, verifyKept)
	if err != nil {
		return one, ctx.Err()
	}
	defer closing(single, &err)
	for _, k := range p.Kernels() {
		if info := k.Info(); !v.wants(info) || !slices.Contains(core.Ops(), info.Op) {
			continue
		}
		if err := a.examineKernel(ctx, &one, examine, o, p, single, k); err != nil || one.Error != "" {
			return one, err
		}
	}
	return one, nil
}

// examineKernel examines a kernel of a plugin, of which there is another process with one thread. A third, with many
// threads, is the kernel's own: what is right only after another kernel of the plugin was called is wrong there.
func (a *app) examineKernel(ctx context.Context, one *verifiedPlugin, o kerneltest.Options, open transport.Options,
	p, single core.Plugin, k core.Kernel) (err error) {
	info := k.Info()
	many, err := one.another(ctx, open, p.Manifest(), verifyThreads, 0)
	if err != nil {
		return ctx.Err()
	}
	defer closing(many, &err)
	a.note("verifying %s: %s", info.Name, info.Op)
	o.Facts, o.Single, o.Many = uses(info.Op), ofOp(single, info.Op), ofOp(many, info.Op)
	o.Others = slices.DeleteFunc(p.Kernels(), func(other core.Kernel) bool {
		return other.Info().Op == info.Op || !slices.Contains(core.Ops(), other.Info().Op)
	})
	on, stop := a.tellOfCases(fmt.Sprintf("%s: %s", info.Name, info.Op), progressEvery)
	o.Progress = on
	r, err := kerneltest.Examine(ctx, k, o)
	stop()
	if err != nil {
		return err
	}
	if len(r.Results) == 0 {
		return nil
	}
	one.Kernels = append(one.Kernels, verifiedKernel{r, supports(k)})
	one.OK = one.OK && r.Count(kerneltest.Failed) == 0
	return nil
}

// another opens the plugin with this manifest once more, in a process with so many threads that may keep so much, and
// notes what is wrong with it.
func (p *verifiedPlugin) another(ctx context.Context, o transport.Options, m core.Manifest, threads int,
	kept int64) (core.Plugin, error) {
	o.Threads, o.MaxKept = threads, kept
	other, err := o.Open(ctx, p.Path)
	if err != nil {
		p.OK, p.Error = false, fmt.Sprintf("another process, with %s: %v", amount.Of(threads, "thread"), err)
		return nil, err
	}
	p.opened = append(p.opened, other)
	if differs := kerneltest.CompareManifests(m, other.Manifest()); differs != "" && p.OK {
		p.OK = false
		p.Manifest = append(p.Manifest, kerneltest.Violation{
			Text: "another process says something else of itself than the first: " + differs})
	}
	return other, nil
}

// ofOp returns a plugin's kernel for an op, or nil.
func ofOp(p core.Plugin, op core.Op) core.Kernel {
	for _, k := range p.Kernels() {
		if k.Info().Op == op {
			return k
		}
	}
	return nil
}
