package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/internal/opbench"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/plugins/linked"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/bench"
	"github.com/seed98097648/tune/trainer/nn"
)

const kernelsBenchLong = `Measure single kernels over a range of shapes: forward, backward, and both one
after the other, against what the machine's memory and arithmetic allow. Without
a NAME, every plugin that is found is measured. A kernel of this project is also
measured as it is linked into this program, on the same tensors in the same run:
the difference is what its process costs. One that can multiply in bfloat16 is
measured with that, too.

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
	out             outputFlags
}

func (a *app) kernelsBenchCommand() *Command {
	c := &Command{Name: "kernels bench", Usage: "[NAME...] [FLAGS]", Args: true,
		Short: "measure single kernels, and the boundary to their processes", Long: kernelsBenchLong,
		Examples: "tune kernels bench\ntune kernels bench npu_fused_rope --tokens 1,64,2048 --gobench rope.txt\ntune " +
			"kernels bench --boundary --json boundary.json\n"}
	b := &kernelsBenchFlags{}
	b.add(c.Group("Flags"))
	return c.finish(func(ctx context.Context, args []string) error {
		if err := b.check(c, args); err != nil {
			return err
		}
		return a.benchKernels(ctx, b, args)
	})
}

func (b *kernelsBenchFlags) add(f *pflag.FlagSet) {
	f.IntSliceVar(&b.tokens, "tokens", nil, "the numbers of `TOKENS` of each shape, separated by commas; by default "+
		"those of each op")
	f.StringVar(&b.dtype, "dtype", "float32", "how tensors are stored: `TYPE` float32, bfloat16 or float16")
	f.IntVar(&b.rounds, "rounds", 20, "measured `ROUNDS` of each pass; with --boundary of each size, and 200 unless "+
		"given")
	addThreads(f, &b.threads)
	f.BoolVar(&b.boundary, "boundary", false, "measure what the boundary between processes costs")
	f.IntVar(&b.calls, "calls", 10000, "`CALLS` of each round trip, with --boundary")
	b.plugins.addCalls(f)
	b.out.add(f)
}

// benchDTypes are what a model's tensors can be stored as.
var benchDTypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// check validates everything that needs no plugin.
func (b *kernelsBenchFlags) check(c *Command, args []string) error {
	if err := c.oneOf("dtype", b.dtype, strings.Split(names(benchDTypes), ",")...); err != nil {
		return err
	}
	switch {
	case b.rounds < 1:
		return c.usagef("--rounds is %d, must be positive", b.rounds)
	case b.calls < 1:
		return c.usagef("--calls is %d, must be positive", b.calls)
	}
	for _, n := range b.tokens {
		if n < 1 || n > nn.MaxTokens {
			return c.usagef("--tokens has %d, must be positive and at most %d", n, nn.MaxTokens)
		}
	}
	err := (trainer.Config{Threads: b.threads}).Validate()
	return cmp.Or(c.misuse(err), b.checkBoundary(c, args), b.out.check(c))
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

func (a *app) benchKernels(ctx context.Context, b *kernelsBenchFlags, args []string) (err error) {
	simd.SetThreads(b.threads)
	// A call that does not reach its plugin is an error.
	o := transport.Options{Threads: b.threads, Strict: true}
	reg, err := b.plugins.scan(ctx, a, o)
	if err != nil {
		return err
	}
	defer closing(reg, &err)
	mem, err := newMemory()
	if err != nil {
		return err
	}
	defer closing(mem, &err)
	var r measured
	if b.boundary {
		r, err = a.measureBoundary(ctx, b, reg, mem, o)
	} else {
		r, err = a.measureKernels(ctx, b, reg, mem, args)
	}
	if err != nil {
		return err
	}
	return a.print(r, b.out.forms())
}

func (a *app) noteWhat(what string) { a.note("%s", what) }

func (a *app) measureKernels(ctx context.Context, b *kernelsBenchFlags, reg *core.Registry, mem core.Memory,
	names []string) (measured, error) {
	kernels, err := namedKernels(reg, names, &b.plugins)
	if err != nil {
		return nil, err
	}
	dtype, err := core.ParseDType(b.dtype)
	if err != nil {
		return nil, err
	}
	a.note("measuring the machine")
	limits, err := ceiling.MeasureFor(ctx, b.threads, looking)
	if err != nil {
		return nil, err
	}
	return opbench.Run(ctx, opbench.Options{Kernels: kernels, Linked: linked.Kernels(), Memory: mem, DType: dtype,
		Tokens: b.tokens, Rounds: b.rounds, Ceilings: limits, CPU: bench.ThisMachine().CPU, Progress: a.noteWhat})
}

// namedKernels returns the kernels of those names, or all.
func namedKernels(reg *core.Registry, names []string, p *pluginFlags) ([]core.Kernel, error) {
	if len(names) == 0 {
		names = reg.Names()
	}
	if len(names) == 0 {
		return nil, p.none()
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

// boundaryKernel is what the boundary is measured with: of the project's kernels the one
// that computes least for each byte.
const boundaryKernel = "npu_fused_rmsnorm"

// boundaryRounds are many, because the differences are small and the calls short.
const boundaryRounds = 200

func (a *app) measureBoundary(ctx context.Context, b *kernelsBenchFlags, across *core.Registry,
	mem core.Memory, plugins transport.Options) (_ measured, err error) {
	plugins.Portable = true
	portable, err := b.plugins.scan(ctx, a, plugins)
	if err != nil {
		return nil, err
	}
	defer closing(portable, &err)
	o := opbench.BoundaryOptions{Memory: mem, Calls: b.calls, Rounds: b.rounds, CPU: bench.ThisMachine().CPU,
		Threads: simd.Threads(), Progress: a.noteWhat}
	if o.Across, err = normOf(across.Lookup(boundaryKernel)); err != nil {
		return nil, err
	}
	if o.Portable, err = normOf(portable.Lookup(boundaryKernel)); err != nil {
		return nil, err
	}
	if o.Linked, err = normOf(linked.Kernels(), nil); err != nil {
		return nil, err
	}
	return opbench.MeasureBoundary(ctx, o)
}

// normOf returns the kernel for rms_norm.
func normOf(kernels []core.Kernel, err error) (core.Kernel, error) {
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(kernels, func(k core.Kernel) bool { return k.Info().Op == core.RMSNorm })
	if i < 0 {
		return nil, fmt.Errorf("the boundary is measured with rms_norm, which %s does not offer", boundaryKernel)
	}
	return kernels[i], nil
}
