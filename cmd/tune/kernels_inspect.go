package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/ops"
	"github.com/seed98097648/tune/trainer/progress"
)

const kernelsInspectLong = `Show what a plugin says about itself, and which uses of its ops it supports:
each kernel is asked about every kind of use that this program knows. And show
what the plugin gets from this program: nothing that it says changes that.
docs/security.md tells what it means. A NAME is looked up in the plugin folders;
a PATH, which has a slash, is any file.`

func (a *app) kernelsInspectCommand() *Command {
	c := &Command{Name: "kernels inspect", Usage: "NAME|PATH [FLAGS]", Args: true,
		Short: "show one plugin: who it is and what it supports", Long: kernelsInspectLong,
		Examples: "tune kernels inspect npu_fused_rope\n"}
	var p pluginFlags
	var asJSON bool
	addListing(c.Group("Flags"), &p, &asJSON)
	return c.finish(func(ctx context.Context, args []string) (err error) {
		if len(args) != 1 {
			return c.usagef("inspect takes one name or path; %s shows them", p.command("kernels list"))
		}
		find := p.inspectNamed
		if isPath(args[0]) {
			find = p.inspectFile
		}
		i, err := find(ctx, a, c, args[0])
		if err != nil {
			return err
		}
		i.Rights = p.rights()
		if strings.HasPrefix(i.Path, core.BuiltIn) && p.memory.bytes == 0 && p.cpus == 0 {
			i.Rights.Writes = "the outputs' memory of all that are built in, which share a process"
		}
		if asJSON {
			return a.writeJSON(i)
		}
		i.print(a)
		return nil
	})
}

// inspection is what "kernels inspect --json" writes.
type inspection struct {
	core.Manifest
	Supports []support `json:"supports"`
	Rights   rights    `json:"rights"`
}

// rights are what the process of every plugin gets. A plugin cannot ask for more.
type rights struct {
	Reads       string   `json:"reads"`
	Writes      string   `json:"writes"`
	Environment []string `json:"environment"`          // names; those that end in * are beginnings
	MaxMemory   int64    `json:"max_memory,omitempty"` // in bytes
	MaxCPUs     int      `json:"max_cpus,omitempty"`
	Lock        string   `json:"lock,omitempty"` // the file that allows it to be started
}

// rights returns what the flags give to plugins.
func (p *pluginFlags) rights() rights {
	r := rights{Reads: "the tensors of its calls", Writes: "the memory of its own outputs",
		Environment: transport.Options{Env: p.env}.Environment(), MaxMemory: p.memory.bytes, MaxCPUs: p.cpus}
	if p.locked != nil {
		r.Lock = p.locked.File
	}
	return r
}

func (r rights) print(w io.Writer) {
	lock := cmp.Or(r.Lock, "none: any plugin may be started that nobody else could have written")
	var limits []string
	if r.MaxMemory > 0 {
		limits = append(limits, amount.Bytes(r.MaxMemory)+" of memory")
	}
	if r.MaxCPUs > 0 {
		limits = append(limits, amount.Of(r.MaxCPUs, "processor"))
	}
	fmt.Fprintf(w, "\nrights\n  reads: %s\n  writes: %s\n  limits: %s\n  lock: %s\n  environment:\n", r.Reads, r.Writes,
		cmp.Or(strings.Join(limits, ", "), "none"), lock)
	for _, line := range indented(strings.Join(r.Environment, " ")) {
		fmt.Fprintln(w, line)
	}
}

// support is the answer of a kernel to one kind of use.
type support struct {
	Op     core.Op    `json:"op"`
	Facts  core.Facts `json:"facts"`
	OK     bool       `json:"supported"`
	Reason string     `json:"reason,omitempty"`
}

// inspectNamed asks the plugin of a name, among those that are found.
func (p *pluginFlags) inspectNamed(ctx context.Context, a *app, _ *Command, name string) (_ *inspection, err error) {
	reg, err := p.scan(ctx, a, transport.Options{})
	if err != nil {
		return nil, err
	}
	defer closing(reg, &err)
	kernels, err := reg.Lookup(name)
	if err != nil {
		return nil, p.missing(name, err)
	}
	plugin, _ := reg.Find(name)
	return inspect(plugin.Manifest, kernels), nil
}

// inspectFile asks the plugin that is a file, wherever it is.
func (p *pluginFlags) inspectFile(ctx context.Context, a *app, c *Command, file string) (_ *inspection, err error) {
	path, err := c.file(file)
	if err != nil {
		return nil, err
	}
	o, err := p.prepare(transport.Options{Logger: a.logger(), CacheDir: "off"}) // it shows the checksum of what is there
	if err != nil {
		return nil, err
	}
	plugin, err := o.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer closing(plugin, &err)
	return inspect(plugin.Manifest(), plugin.Kernels()), nil
}

func inspect(m core.Manifest, kernels []core.Kernel) *inspection {
	i := &inspection{Manifest: m}
	for _, k := range kernels {
		i.Supports = append(i.Supports, supports(k)...)
	}
	return i
}

// supports asks a kernel about every kind of use of its op.
func supports(k core.Kernel) []support {
	var all []support
	for _, f := range uses(k.Info().Op) {
		s := support{Op: k.Info().Op, Facts: f, OK: true}
		if err := k.Supports(f); err != nil {
			s.OK, s.Reason = false, err.Error()
		}
		all = append(all, s)
	}
	return all
}

func (i *inspection) print(a *app) {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "name\t%s\nversion\t%s\npath\t%s\nsha256\t%s\n", i.Name, i.Version, short(i.Path), i.Checksum)
	w.Flush()
	p := paletteOf(a.stdout)
	i.Rights.print(a.stdout)
	for _, k := range i.Kernels {
		op := string(k.Op)
		head := strings.TrimPrefix(progress.Wrapped(op+": "+k.Summary, "  "), op)
		fmt.Fprintf(a.stdout, "\n%s%s\n  backward pass: %s\n  storage: %s\n", p.bold(op), head,
			map[bool]string{true: "yes", false: "no"}[k.Backward], names(k.DTypes))
		if k.ByThreads {
			fmt.Fprintf(a.stdout, "  bits: depend on the number of threads\n")
		}
		for _, s := range i.Supports {
			if s.Op != k.Op {
				continue
			}
			fmt.Fprintln(a.stdout, s.line(p))
		}
	}
}

// line is the answer, in as many lines as fit a terminal.
func (s support) line(p palette) string {
	if s.OK {
		return strings.TrimSuffix(progress.Wrapped(fmt.Sprintf("  %s: yes", s.Facts), "      "), "yes") + p.good("yes")
	}
	return strings.Replace(progress.Wrapped(fmt.Sprintf("  %s: no, %s", s.Facts, s.Reason), "      "), ": no,",
		": "+p.bad("no")+",", 1)
}

// uses returns the kinds of use of an op, in small sizes: every value of every fact that
// is not a size, the others as the models here have them. Storage types come first.
func uses(op core.Op) []core.Facts {
	o := ops.Of(op)
	usual := func(d core.DType) core.Facts {
		f := o.Usual
		if f.DType = d; op.HasWeights() {
			f.WeightDType = d
		}
		return f
	}
	all := []core.Facts{usual(core.Float32), usual(core.BFloat16), usual(core.Float16)}
	for _, change := range o.Changes {
		f := usual(core.Float32)
		change(&f)
		all = append(all, f)
	}
	return all
}
