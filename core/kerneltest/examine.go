package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
)

// Options say what Examine looks at.
type Options struct {
	// Quick leaves out the standard facts: only those of Facts are run.
	Quick bool
	// Facts are run besides the standard ones; those that the kernel does not support
	// are passed over.
	Facts []core.Facts
	// Wants, if not nil, says of a case by its kind and name whether it is to be run, such as only those that failed
	// before a change.
	Wants func(kind, name string) bool
	// Inputs is memory that the kernel can read and not write, such as that of
	// transport.NewMemory. Without it no case has inputs there, and the calls that are
	// measured have them in the kernel's own memory.
	Inputs core.Memory
	// Single is the same kernel in a process that computes with one thread. Without it, no
	// case compares its bits with those of more threads.
	Single core.Kernel
	// Many is the same kernel in a process that computes with more threads than there are processors, or rows. Without
	// it, no case looks at these.
	Many core.Kernel
	// Others are the other kernels of the plugin, in the same process.
	Others []core.Kernel
	// Kept is how many bytes Single was allowed to keep of its inputs; 0 if that is not known.
	Kept int64
	// Calls is how many calls of each pass memory and latency are measured over; 0 means 1000.
	Calls int
	// Room is how many bytes of memory a case with more than 2^31 elements may take. It is
	// skipped if that is not enough, and if there is no Inputs.
	Room int64
	// Progress, when set, is told of each case before it is run: its kind, and that it is
	// number i of n.
	Progress func(kind string, i, n int)
	// Repeats is how often the same call is run to find results that differ, a quarter as
	// often in storage types after the first; 0 means 200.
	Repeats int

	prepared shelf // nil keeps nothing
}

func (o Options) withDefaults() Options {
	if o.Calls == 0 {
		o.Calls = 1000
	}
	if o.Repeats == 0 {
		o.Repeats = 200
	}
	return o
}

// maxDeaths is in how many cases a process may die before Examine stops.
const maxDeaths = 3

// Examine runs everything that the kit knows on k: the cases of Cases and those of
// Options.Facts, and for each storage type whether results depend on earlier calls or
// differ from call to call, how errors add up over stacked layers, what happens with
// inputs that are read-only, whether memory grows, and how long small calls take. It
// stops early when ctx is done, with the error of ctx.
//
// A kernel that supports no case at all, or none of those that Options.Wants asks for, has failed, because nothing was
// checked. If there are none to ask for, there are no results.
func Examine(ctx context.Context, k core.Kernel, o Options) (*Report, error) {
	o = o.withDefaults()
	o.prepared = shelf{}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	start := clock.Now()
	r, died := &Report{Kernel: k.Info()}, 0
	all := examination(ctx, k, o)
	for i, e := range all {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if o.Progress != nil {
			o.Progress(e.kind, i+1, len(all))
		}
		before := core.HealthOf(k).Deaths
		began := clock.Now()
		c := e.run(ctx)
		c.Took = clock.Since(began)
		if n := core.HealthOf(k).Deaths - before; n > 0 {
			c.fail(Violation{Text: "the process died or was stopped in the middle of a call, and had to be started again",
				err: core.ErrPluginExited})
			died++
		}
		r.Results = append(r.Results, c)
		// A death after which the call could be repeated is no end.
		if slices.ContainsFunc(c.Violations, func(v Violation) bool {
			return v.err != core.ErrPluginExited && errors.Is(v.err, core.ErrPluginExited)
		}) {
			r.Stopped = "after " + c.Case + ", because the process cannot go on"
			break
		}
		if died == maxDeaths {
			r.Stopped = fmt.Sprintf("after %s, because the process died in %d cases", c.Case, died)
			break
		}
	}
	if err := ctx.Err(); err != nil { // the last result may be of an interrupted call
		return r, err
	}
	if r.Stopped == "" {
		r.Results = append(r.Results, inAll(r, o)...)
	}
	r.Took = clock.Since(start)
	return r, nil
}

// inAll are the cases about what came of all others: that what the manifest says is so, and that anything was checked.
func inAll(r *Report, o Options) []Result {
	c := Result{Case: string(r.Kernel.Op) + " storage types", Kind: "storage types", Op: r.Kernel.Op, Status: OK}
	none := r.Count(Skipped) == len(r.Results)
	if o.Wants != nil { // others may support what the manifest says
		if !none || len(r.Results) == 0 {
			return nil
		}
		c.fail(Violation{Text: "no case was run, so nothing was checked", err: core.ErrNotSupported})
		return []Result{c}
	}
	c.fail(checkClaims(r.Kernel, r.Results)...)
	if none {
		c.fail(Violation{Text: fmt.Sprintf("none of the %d cases is supported, so nothing was checked", len(r.Results)),
			err: core.ErrNotSupported})
	}
	return append([]Result{c}, unknownSizes(r)...)
}

// unknownSizes says it where a kernel was asked about sizes and supports none of those.
func unknownSizes(r *Report) []Result {
	n := 0
	for _, c := range r.Results {
		if strings.HasPrefix(c.Kind, "sizes of ") {
			if n++; c.Status != Skipped {
				return nil
			}
		}
	}
	if n == 0 {
		return nil
	}
	c := Result{Case: string(r.Kernel.Op) + " sizes", Kind: "sizes", Op: r.Kernel.Op}
	c.skip("it supports none of the %d cases that go through all sizes; sizes other than those above are unknown", n)
	return []Result{c}
}

// step is a case of Examine, of a kind.
type step struct {
	kind, name string
	run        func(context.Context) Result
}

// examination lists the cases of Examine, to be run in this order.
func examination(ctx context.Context, k core.Kernel, o Options) []step {
	op, supports := k.Info().Op, remembered(k.Supports)
	var cases []Case
	if !o.Quick {
		cases = append(Cases(op), fitting(supports, append(Extremes(op), sizes(op, supports)...))...)
	}
	for _, f := range o.Facts {
		cases = append(cases, CasesFor(op, f)...)
	}
	cases = distinct(cases)
	var supported, wanted []Case
	for _, c := range cases {
		if supports(c.Facts) != nil {
			continue
		}
		supported = append(supported, c)
		if o.Wants == nil || o.Wants(c.Kind, c.Name) {
			wanted = append(wanted, c)
		}
	}
	var all []step
	next := ahead(ctx, wanted, passes(k))
	for _, c := range cases {
		all = append(all, step{c.Kind, c.Name, func(ctx context.Context) Result {
			r := newResult(c)
			if accepted(supports(c.Facts), c.Facts, &r) {
				p, ok := <-next
				if !ok { // ctx is done
					p.err = ctx.Err()
				}
				p.run(ctx, k, nil, &r)
			}
			return r
		}})
	}
	for i, f := range typical(supported) {
		if i == 1 { // a race shows in any storage type
			o.Repeats = max(1, o.Repeats/4)
		}
		all = append(all, trials(k, f, o)...)
		if i == 0 && !o.Quick {
			all = append(all, trialsOfKinds(k, f, o)...)
		}
		if i == 0 {
			all = append(all, trialsOfOneType(k, f, o)...)
		}
	}
	return slices.DeleteFunc(all, func(s step) bool { return o.Wants != nil && !o.Wants(s.kind, s.name) })
}

// typical returns for each storage type the largest facts of the cases, but for those that are about large sizes; with
// frozen weights only where a kernel takes no others.
func typical(cases []Case) []core.Facts {
	var all []core.Facts
	for _, d := range storage() {
		best, size := core.Facts{}, 0.0
		for _, frozen := range []bool{false, true} {
			for _, c := range cases {
				f := c.Facts
				fits := f.DType == d && f.Frozen == frozen && c.Tokens == 1 && !isLarge(c)
				if fits && work(c.Op, f) > size {
					best, size = f, work(c.Op, f)
				}
			}
			if size > 0 {
				all = append(all, best)
				break
			}
		}
	}
	return all
}

// work is what a token costs, forward.
func work(op core.Op, f core.Facts) float64 { return core.NewWork(op, core.Forward, f, 1, 1).Flops() }

// threadsKind is the kind of the cases about what several threads share out, and threadsTokens are enough for them.
const (
	threadsKind   = "one thread or more"
	threadsTokens = 512
)

// trials lists the cases that are no single comparison, for facts that k supports.
func trials(k core.Kernel, f core.Facts, o Options) []step {
	return []step{
		trialOf(k, f, o, "calls in turn", 13, (*trial).inTurn),
		trialOf(k, f, o, fmt.Sprintf("the same call %d times", o.Repeats), 512, (*trial).repeated),
		trialOf(k, f, o, threadsKind, threadsTokens, (*trial).oneThread),
		trialOf(k, f, o, fmt.Sprintf("%d stacked layers", layers), 16, (*trial).stacked),
		trialOf(k, f, o, "read-only inputs", 13, (*trial).readOnly),
		trialOf(k, lasting(k, f), o, contentsKind, contentTokens, (*trial).contents),
	}
}

// trialsOfKinds lists those that find what is kept too long, and what threads share out wrongly, for the kinds of use
// that f is not, which other code computes: such as a weight of another storage, a bias, an adapter, or products in
// bfloat16.
func trialsOfKinds(k core.Kernel, f core.Facts, o Options) []step {
	var all []step
	seen, shared := map[core.Facts]bool{lasting(k, f): true}, map[core.Facts]bool{f: true}
	for _, f := range kinds(k.Info().Op, f.DType) {
		f, ok := fit(k.Supports, f)
		if !ok {
			continue
		}
		if wide := sharedOut(k, f); !shared[wide] {
			shared[wide] = true
			all = append(all, trialOf(k, wide, o, threadsKind, threadsTokens, (*trial).oneThread))
		}
		if f = lasting(k, f); seen[f] {
			continue
		}
		seen[f] = true
		all = append(all,
			trialOf(k, f, o, "calls in turn", 13, (*trial).inTurn),
			trialOf(k, f, o, contentsKind, kindTokens, (*trial).contents))
	}
	return all
}

// sharedOut returns facts with which threadsTokens are enough work for several threads, whatever they share out:
// tokens, columns or terms. Weights that are trained stay so, as they have gradients that others have not.
func sharedOut(k core.Kernel, f core.Facts) core.Facts {
	const width, columns = 64, 128
	wide := f
	atLeast(&wide.Dim, width)
	atLeast(&wide.Intermediate, width)
	atLeast(&wide.Out, columns)
	atLeast(&wide.Vocab, columns)
	if f.Dim > 0 || f.RotaryDim > 0 { // a head is a part of a row, and not of a product with all tokens
		atLeast(&wide.HeadDim, width)
	}
	if k.Supports(wide) != nil {
		return f
	}
	return wide
}

// atLeast makes a size larger, if the op has it.
func atLeast(size *int, to int) {
	if *size > 0 {
		*size = max(*size, to)
	}
}

// trialsOfOneType lists those that no storage type changes.
func trialsOfOneType(k core.Kernel, f core.Facts, o Options) []step {
	left := &kept{}
	growth := func(t *trial, ctx context.Context) error { return t.growth(ctx, left) }
	leftBehind := func(t *trial, ctx context.Context) error { return t.leftBehind(ctx, left) }
	huge := func(t *trial, ctx context.Context) error { return t.huge(ctx, hugeElems) }
	anyOrder := fmt.Sprintf("%d calls in any order", anyOrderCalls(o))
	all := []step{
		trialOf(k, core.Facts{DType: f.DType}, o, anyOrder, 0, (*trial).anyOrder),
		trialOf(k, half(k, f), o, "over 2^31 elements", 2*hugeEdge, huge),
		trialOf(k, f, o, fmt.Sprintf("memory over %d calls", o.Calls), growthTokens, growth),
		trialOf(k, f, o, "left behind by calls", growthTokens, leftBehind),
		trialOf(k, f, o, sizesKind, growthSizes, (*trial).manySizes),
		trialOf(k, core.Facts{DType: f.DType}, o, otherDataKind, 0, (*trial).otherData),
		trialOf(k, f, o, "at rest after calls", 512, (*trial).atRest),
		trialOf(k, f, o, "one thread is one", 512, (*trial).keepsToOneThread),
		trialOf(k, f, o, "latency of one token", 1, (*trial).latency),
	}
	if of := lasting(k, smallest(k, f)); firstWeight(k.Info().Op, of) != "" {
		all = append(all, trialOf(k, of, o, manyKind, kindTokens, (*trial).manyContents),
			trialOf(k, core.Facts{DType: f.DType}, o, sharedKind, sharedTokens, (*trial).sharedWeights))
	}
	if k.Info().Keeps {
		all = append(all, trialOf(k, lasting(k, f), o, keptKind, kindTokens, (*trial).keptWithin))
	}
	return all
}

func trialOf(k core.Kernel, f core.Facts, o Options, kind string, tokens int,
	run func(*trial, context.Context) error) step {
	c := specialCase(k.Info().Op, f, kind, tokens)
	return step{kind, c.Name, func(ctx context.Context) Result { return try(ctx, k, c, o, run) }}
}
