package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/internal/opbench"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/plugins/linked"
	"github.com/seed98097648/tune/trainer/bench"
	"github.com/seed98097648/tune/trainer/nn"
)

const kernelsBenchLong = `Measure single kernels over a range of shapes: forward, backward, and both one
after the other, against what the machine's memory and arithmetic allow. Without
a NAME, every plugin that is found is measured. A kernel of this project is also
measured as it is linked into this program, on the same tensors in the same run:
the difference is what its process costs.

With --boundary, measure that cost itself: the round trip of a call, and one
kernel on both sides of the boundary with tensors from 4 KiB to 64 MiB.`

// kernelsBenchFlags are the values of the flags of "kernels bench".
type kernelsBenchFlags struct {
	tokens          []int
	dtype           string
	rounds, threads int
	boundary        bool
	calls           int
	plugins         pluginFlags
	json, gobench   string
}

func (a *app) kernelsBenchCommand() *Command {
	c := &Command{Name: "kernels bench", Usage: "[NAME...] [FLAGS]", Short: "measure single kernels, and the boundary to their processes", Long: kernelsBenchLong,
		Examples: "tune kernels bench\ntune kernels bench npu_fused_rope --tokens 1,64,2048 --gobench rope.txt\ntune kernels bench --boundary --json boundary.json\n"}
	b := &kernelsBenchFlags{}
	b.add(c.Group("Flags"))
	c.finish()
	c.Run = func(ctx context.Context, args []string) error {
		dtype, err := b.check(c, args)
		if err != nil {
			return err
		}
		if b.boundary {
			return a.benchBoundary(ctx, b)
		}
		return a.benchKernels(ctx, b, args, dtype)
	}
	return c
}

func (b *kernelsBenchFlags) add(f *pflag.FlagSet) {
	f.IntSliceVar(&b.tokens, "tokens", nil, "the numbers of `TOKENS` of each shape, separated by commas; by default those of each op")
	f.StringVar(&b.dtype, "dtype", "float32", "how tensors are stored: `TYPE` float32, bfloat16 or float16")
	f.IntVar(&b.rounds, "rounds", 20, "measured `ROUNDS` of each pass; with --boundary of each size, and 200 unless given")
	addThreads(f, &b.threads)
	f.BoolVar(&b.boundary, "boundary", false, "measure what the boundary between processes costs")
	f.IntVar(&b.calls, "calls", 10000, "`CALLS` of each round trip, with --boundary")
	b.plugins.add(f)
	b.plugins.timeout.add(f)
	f.StringVar(&b.json, "json", "", "also write the result to this `FILE`; - for standard output, in place of the table")
	f.StringVar(&b.gobench, "gobench", "", "also write every round to this `FILE` in the format of Go benchmarks, for benchstat")
}

// benchDTypes are what a model's tensors can be stored as.
var benchDTypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// check validates everything that needs no file.
func (b *kernelsBenchFlags) check(c *Command, args []string) (core.DType, error) {
	dtype, err := core.ParseDType(b.dtype)
	if err != nil {
		return dtype, c.usagef("--dtype: %w", err)
	}
	if !slices.Contains(benchDTypes, dtype) {
		return dtype, c.usagef("--dtype is %s, must be one of %v", dtype, benchDTypes)
	}
	for _, flag := range []struct {
		name  string
		value int
	}{{"rounds", b.rounds}, {"calls", b.calls}} {
		if flag.value < 1 {
			return dtype, c.usagef("--%s is %d, must be positive", flag.name, flag.value)
		}
	}
	for _, n := range b.tokens {
		if n < 1 || n > nn.MaxTokens {
			return dtype, c.usagef("--tokens has %d, must be positive and at most %d", n, nn.MaxTokens)
		}
	}
	if err := c.checkThreads(b.threads); err != nil {
		return dtype, err
	}
	if err := b.checkBoundary(c, args); err != nil {
		return dtype, err
	}
	return dtype, checkOutputs(b.json, b.gobench)
}

// checkBoundary reports what makes no sense with --boundary, or without.
func (b *kernelsBenchFlags) checkBoundary(c *Command, args []string) error {
	switch {
	case !b.boundary && c.Flags.Changed("calls"):
		return c.usagef("--calls is for --boundary")
	case !b.boundary:
		return nil
	case len(args) > 0:
		return c.usagef("--boundary takes no names: it is measured with %s", boundaryKernel)
	}
	for _, name := range []string{"tokens", "dtype", "gobench"} {
		if c.Flags.Changed(name) {
			return c.usagef("--boundary and --%s exclude each other", name)
		}
	}
	if !c.Flags.Changed("rounds") {
		b.rounds = boundaryRounds
	}
	return nil
}

// checkOutputs finds files that cannot be written before anything is measured.
func checkOutputs(json, gobench string) error {
	if err := checkWritable(json); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	if err := checkWritable(gobench); err != nil {
		return fmt.Errorf("--gobench: %w", err)
	}
	return nil
}

func (a *app) benchKernels(ctx context.Context, b *kernelsBenchFlags, names []string, dtype core.DType) (err error) {
	reg, err := a.measured(ctx, b, false)
	if err != nil {
		return err
	}
	defer closing(reg, &err)
	kernels, err := namedKernels(reg, names, &b.plugins)
	if err != nil {
		return err
	}
	mem, err := newMemory()
	if err != nil {
		return err
	}
	defer closing(mem, &err)
	simd.SetThreads(b.threads)
	a.note("measuring the machine")
	limits, err := ceiling.Measure(ctx, b.threads)
	if err != nil {
		return err
	}
	r, err := opbench.Run(ctx, opbench.Options{Kernels: kernels, Linked: linked.Kernels(), Memory: mem, DType: dtype, Tokens: b.tokens,
		Rounds: b.rounds, Ceilings: limits, CPU: bench.ThisMachine().CPU, Progress: a.noteWhat})
	if err != nil {
		return err
	}
	if b.gobench != "" {
		if err := a.writeFile(b.gobench, r.WriteGo); err != nil {
			return err
		}
	}
	return a.printResult(r.Table(), r, b.json)
}

func (a *app) noteWhat(what string) { a.note("%s", what) }

// measured opens the plugins such that a call that does not reach them is an error.
func (a *app) measured(ctx context.Context, b *kernelsBenchFlags, portable bool) (*core.Registry, error) {
	return b.plugins.scan(ctx, a, transport.Options{Threads: b.threads, Strict: true, Portable: portable})
}

// namedKernels returns the kernels of those names, or all.
func namedKernels(reg *core.Registry, names []string, p *pluginFlags) ([]core.Kernel, error) {
	if len(names) == 0 {
		names = reg.Names()
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no usable plugin was found; \"tune kernels list\" says where they are looked for")
	}
	var all []core.Kernel
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		kernels, err := reg.Lookup(name)
		if err != nil {
			return nil, p.missing(name, err)
		}
		all = append(all, kernels...)
	}
	return all, nil
}

// printResult prints the table and writes the value as JSON, or only the latter where it
// takes the standard output.
func (a *app) printResult(table string, value any, file string) error {
	if file == "-" {
		return a.writeJSON(value)
	}
	fmt.Fprint(a.stdout, table)
	if file == "" {
		return nil
	}
	return a.writeFile(file, func(w io.Writer) error { return writeJSON(w, value) })
}

// writeFile writes a result and says so.
func (a *app) writeFile(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if err := writeWhole(name, b.Bytes()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	a.note("wrote %s", name)
	return nil
}
