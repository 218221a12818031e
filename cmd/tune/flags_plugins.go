package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/core/trust"
	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/plugins/builtin"
)

const (
	pluginDirEnv   = "TUNE_PLUGIN_DIR"
	pluginDirUsage = "the only `FOLDER` to look for plugins in; otherwise $" + pluginDirEnv + ", plugins beside the " +
		"executable, and tune/plugins in the user's config folder (~/.config on Linux), and of names that are not there, " +
		"those built in"
	lockUsage = "the `FILE` of \"tune kernels lock\" that lists the plugins that may be started; otherwise $" +
		trust.FileEnv + ", or " + trust.DefaultFile + " in the working directory if it is there; " + trust.Off +
		" for no lock"
)

// defaultCallTimeout is transport's.
const defaultCallTimeout = 60 * time.Second

// pluginFlags are the flags of every command that opens plugins.
type pluginFlags struct {
	dir, lock string
	env       []string
	memory    byteSize
	cpus      int
	timeout   time.Duration // 0 where calls have another deadline, or there are none

	flags  *pflag.FlagSet
	locked *trust.Lock // what scan has found, nil without a lock
}

func (p *pluginFlags) add(to *pflag.FlagSet) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SortFlags, p.flags = false, f
	f.StringVar(&p.dir, "plugin-dir", "", pluginDirUsage)
	f.StringVar(&p.lock, "lock", "", lockUsage)
	f.StringArrayVar(&p.env, "plugin-env", nil, "let plugins have the environment variable `NAME` too, or set it with "+
		"NAME=VALUE; without, they get a few harmless ones (see docs/security.md). May be given again")
	f.Var(&p.memory, "plugin-memory", "the most memory that the process of each plugin may take for itself, "+
		"and as much again for what it returns: a `SIZE` such as 2GiB (Linux only)")
	f.IntVar(&p.cpus, "plugin-cpus", 0, "the `PROCESSORS` that plugins run on, at most; 0 for all (Linux only)")
	to.AddFlagSet(f)
}

// addCalls is add for a command that calls kernels.
func (p *pluginFlags) addCalls(to *pflag.FlagSet) {
	p.add(to)
	p.flags.DurationVar(&p.timeout, "call-timeout", defaultCallTimeout,
		"the most `TIME` that one call of a plugin may take, "+
			"such as 90s or 5m, or longer if it is very large; one that takes longer is ended and started again")
	to.AddFlagSet(p.flags)
}

// scan asks all plugins that are found, and that the lock allows, who they are. Unless a folder
// is named, those that are built in take the names that nobody has.
func (p *pluginFlags) scan(ctx context.Context, a *app, o transport.Options) (*core.Registry, error) {
	o, err := p.prepare(o)
	if err != nil {
		return nil, err
	}
	return p.scanWith(ctx, a, o)
}

// prepare reads the lock and adds what the flags say.
func (p *pluginFlags) prepare(o transport.Options) (_ transport.Options, err error) {
	p.locked, err = trust.Find(p.lock)
	if errors.Is(err, fs.ErrNotExist) {
		return o, fmt.Errorf("%w; write one with %s", err, p.command("kernels lock"))
	}
	if err != nil {
		return o, err
	}
	if p.locked != nil {
		p.locked.Flags = p.given("call-timeout")
	}
	return p.options(o)
}

// scanWith is scan with options that have everything.
func (p *pluginFlags) scanWith(ctx context.Context, a *app, o transport.Options) (*core.Registry, error) {
	from, named := "--plugin-dir", []string{p.dir}
	if p.dir == "" {
		from, named = "$"+pluginDirEnv, filepath.SplitList(os.Getenv(pluginDirEnv))
	}
	for _, dir := range named {
		if info, err := os.Stat(dir); dir != "" && err != nil {
			return nil, fmt.Errorf("%s: %w", from, plainfile.Explain(err))
		} else if dir != "" && !info.IsDir() {
			return nil, fmt.Errorf("%s: %s is a file; name the folder of plugins", from, dir)
		}
	}
	o.Logger = a.logger()
	reg, err := core.ScanAllKernels(ctx, transport.Folders(p.dir), o.Open)
	if err != nil || p.dir != "" {
		return reg, err
	}
	if err := builtin.Add(ctx, reg, o.OpenBuiltIn); err != nil {
		return nil, errors.Join(err, reg.Close())
	}
	return reg, nil
}

// options adds what the flags say, and the lock that prepare has read.
func (p *pluginFlags) options(o transport.Options) (transport.Options, error) {
	for _, e := range p.env {
		if name, _, _ := strings.Cut(e, "="); name == "" || strings.ContainsAny(name, " ,*") {
			return o, fmt.Errorf("--plugin-env is %q; it takes the name of one variable, or NAME=VALUE", e)
		}
	}
	if p.cpus < 0 {
		return o, fmt.Errorf("--plugin-cpus is %d, must not be negative", p.cpus)
	}
	if p.timeout <= 0 && p.flags.Lookup("call-timeout") != nil {
		return o, fmt.Errorf("--call-timeout is %v, must be positive", p.timeout)
	}
	o.Lock, o.Env, o.MaxMemory, o.MaxCPUs = p.locked, p.env, p.memory.bytes, p.cpus
	o.CallTimeout = cmp.Or(p.timeout, o.CallTimeout)
	return o, o.CheckLimits()
}

// given returns the flags that were given, but for those of some names; see givenOf.
func (p *pluginFlags) given(but ...string) string {
	return givenOf(p.flags, func(name string) bool { return !slices.Contains(but, name) })
}

// command is a verb on plugins to type next, in quotes, with what finds the same ones, but for some flags.
func (p *pluginFlags) command(verb string, but ...string) string {
	return `"` + invocation() + " " + verb + p.given(append(but, "call-timeout")...) + `"`
}

// none says that there are no plugins.
func (p *pluginFlags) none() error {
	return fmt.Errorf("no usable plugin was found; %s says where they are looked for", p.command("kernels list", "lock"))
}

// missing explains a name that nobody offers and the lock has.
func (p *pluginFlags) missing(name string, err error) error {
	if p.locked == nil || !errors.Is(err, core.ErrUnknownKernel) {
		return err
	}
	e, ok := p.locked.Named(name)
	if !ok {
		return err
	}
	return fmt.Errorf("%w; %s locks %s %s as %s, which is not among the plugins that were found: put it back, or run %s",
		err, p.locked.File, e.Name, e.Version, e.Path, p.command("kernels lock --update-lock"))
}

// byteSize is the value of a flag: a number of bytes with a unit.
type byteSize struct {
	text  string
	bytes int64
}

var _ pflag.Value = (*byteSize)(nil)

// Type implements pflag.Value.
func (*byteSize) Type() string { return "size" }

// String implements pflag.Value.
func (b *byteSize) String() string { return b.text }

// sizes are written with a unit: KiB and K are 1024 bytes, KB are 1000.
var sizes = regexp.MustCompile(`^([0-9.]+) ?([KMGT]?)(i?B)?$`)

// Set implements pflag.Value.
func (b *byteSize) Set(s string) error {
	parts := sizes.FindStringSubmatch(s)
	if parts == nil {
		return errors.New("not a size")
	}
	base := 1024.0
	if parts[3] == "B" {
		base = 1000
	}
	n, err := strconv.ParseFloat(parts[1], 64)
	n *= math.Pow(base, float64(strings.Index(" KMGT", parts[2])))
	if err != nil || n < 1 || n > math.MaxInt64/2 {
		return errors.New("not a size")
	}
	b.text, b.bytes = s, int64(n)
	return nil
}
