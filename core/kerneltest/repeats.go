package kerneltest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed98097648/tune/core"
)

// inTurn finds results that depend on earlier calls, such as those of a kernel that keeps
// what it once computed: it runs a call, the same with other data in the same memory, the
// first again, one with other numbers in the middle of its inputs only, one with fewer tokens,
// and the first again; and its backward pass after a forward pass with other data, as where layers have
// the same sizes, in the same memory and in other.
func (t *trial) inTurn(ctx context.Context) error {
	c := t.of
	other, short, middle := c, c, c
	other.Seed, short.Seed, short.Tokens, middle.Edit = c.Seed+1, c.Seed+2, 5, negateMiddle
	var data [4]prepared
	for i, c := range []Case{c, other, middle, short} {
		if data[i] = t.prepare(ctx, c); data[i].err != nil {
			return data[i].err
		}
	}
	one, two, mid, less := data[0], data[1], data[2], data[3]
	room, err := one.place(t.kernel, t.memory)
	if err != nil {
		return err
	}
	small, err := less.place(t.kernel, t.memory)
	if err != nil {
		return err
	}
	var first outputs
	for i, step := range []struct {
		when  string
		at    place
		data  prepared
		again bool
	}{
		{"in the first call", room, one, false},
		{"after a call with other data in the same memory", room, two, false},
		{"after another, with the data of the first call", room, one, true},
		{"after a call that differs in the middle of each input only", room, mid, false},
		{"after calls with more tokens", small, less, false},
		{"after a call with fewer tokens", room, one, true},
	} {
		var before outputs
		if step.again {
			before = first
		}
		now := step.data.runAt(ctx, step.at, before, poisons[i%2], t.Result)
		if i == 0 {
			first = now
		}
		if t.Status == Failed {
			t.prefix("%s: ", step.when)
			return nil
		}
	}
	if len(passes(t.kernel)) == 1 {
		return nil
	}
	return t.backwardInTurn(ctx, room, one, two, first)
}

// backwardInTurn runs the backward pass of one after the forward pass of two, which is where one has given first.
func (t *trial) backwardInTurn(ctx context.Context, room place, one, two prepared, first outputs) error {
	away, err := one.place(t.kernel, t.memory)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		when string
		at   place
	}{{"", room}, {" elsewhere", away}} {
		two.runPassAt(ctx, room, core.Forward, nil, outputs{}, poisons[0], t.Result)
		one.runPassAt(ctx, step.at, core.Backward, first, outputs{}, poisons[1], t.Result)
		if t.Status == Failed {
			t.prefix("backward after a forward pass with other data%s: ", step.when)
			return nil
		}
	}
	return nil
}

// negateMiddle changes one number within each input. A kernel that keeps what it made of an
// input, and looks at some of it only to see whether it is still the same, as the ends, the
// middle and every sixteenth number are, goes on with the old one.
func negateMiddle(in map[string][]core.Tensor) {
	negate(in, func(n int) int { return min(n*3/8|1, n-1) })
}

// negate changes the sign of one element of n in all tensors but indices and routing weights,
// which are never negative.
func negate(in map[string][]core.Tensor, which func(n int) int) {
	for name, tensors := range in {
		for _, x := range tensors {
			if n := x.Elems(); x.DType != core.Int32 && name != "routing_weights" {
				at, v := which(n), make([]float32, 1)
				x.Load(v, at)
				v[0] = -v[0]
				x.Store(v, at)
			}
		}
	}
}

// repeated runs one call many times, on enough tokens that a kernel will use all its
// threads, and wants the same bits every time. It finds a race only if that shows: a
// result that goes wrong in one of n runs is missed by m runs with a chance of (1-1/n)^m. Meanwhile another process
// of the plugin computes something else.
func (t *trial) repeated(ctx context.Context) error {
	p := t.prepare(ctx, t.of)
	at, err := p.place(t.kernel, t.memory)
	if err != nil {
		return err
	}
	beside, err := t.beside(ctx)
	if err != nil {
		return err
	}
	var first outputs
	for i := range t.options.Repeats {
		first = p.runAt(ctx, at, first, poisons[i%2], t.Result)
		if t.Status == Failed {
			t.prefix("call %d of %d: ", i+1, t.options.Repeats)
			break
		}
	}
	other := beside()
	t.fail(other.Violations...)
	return nil
}

// beside has the process with one thread, if there is one, run a call on other data again and again until what it
// returns is called, which gives what came of that. Ranks of a run are several processes of one plugin on a machine,
// and what they share, as a file or memory with a name, is spoilt by the other.
func (t *trial) beside(ctx context.Context) (end func() Result, err error) {
	k, c := t.options.Single, t.of
	c.Seed++
	r := newResult(c)
	if _, ok := k.(Process); !ok {
		return func() Result { return r }, nil
	}
	m := newMemory(k)
	p := t.prepare(ctx, c)
	at, err := p.place(k, m)
	if err != nil {
		m.free()
		return nil, err
	}
	var ended atomic.Bool
	var running sync.WaitGroup
	running.Go(func() {
		var first outputs
		for i := 0; r.Status != Failed && !ended.Load(); i++ {
			first = p.runAt(ctx, at, first, poisons[i%2], &r)
		}
	})
	return func() Result {
		ended.Store(true)
		running.Wait()
		m.free()
		r.prefix("in a process beside another that computes: ")
		return r
	}, nil
}

// oneThread finds results that depend on how many threads compute them, such as sums over
// rows that are cut into as many parts: a run on another machine would differ. Of a kernel that
// says so, each number has to be right by itself. In the other process the first call is one of the
// backward pass: so it is where the losses come from backward alone, and in a process that
// was started again in the middle of a step. With one thread, sums of parts that others wait for are often added up in
// place, so calls that add to their outputs are made there, too.
func (t *trial) oneThread(ctx context.Context) error {
	if t.options.Single == nil {
		return errNoSingle
	}
	p := t.prepare(ctx, t.of)
	byThreads := t.kernel.Info().ByThreads
	kernels := []core.Kernel{t.kernel, t.options.Single}
	if t.options.Many != nil {
		kernels = append(kernels, t.options.Many)
	}
	var before outputs
	for _, k := range kernels {
		if byThreads {
			before = nil
		}
		m := newMemory(k)
		defer m.free()
		at, err := p.place(k, m)
		if err != nil {
			return err
		}
		now := outputs{}
		for _, pass := range slices.Backward(passes(k)) {
			p.runPassAt(ctx, at, pass, before, now, poisons[0], t.Result)
		}
		if before = now; t.Status == Failed {
			break
		}
	}
	if t.Status == OK && len(t.kernel.Info().Adds) > 0 {
		c := t.of
		c.Tokens = kindTokens
		t.prepare(ctx, c).run(ctx, t.options.Single, nil, t.Result)
	}
	t.prefix("the same call with one thread and with more: ")
	if t.Status == OK && t.options.Many != nil {
		t.fewRows(ctx)
	}
	if byThreads && t.Status == OK {
		t.Reason = "bits are not compared: the kernel says that they depend on the number of threads"
	}
	return nil
}

// fewRows finds a kernel that shares out rows among more threads than there are: some have none, or fewer than none.
func (t *trial) fewRows(ctx context.Context) {
	c := t.of
	for _, c.Tokens = range []int{1, 2, 3, 5, 9} {
		c.Seed = uint64(c.Tokens)
		prepare(ctx, c, passes(t.kernel)).run(ctx, t.options.Many, nil, t.Result)
		if t.Status == Failed {
			t.prefix("with many threads, T=%d: ", c.Tokens)
			return
		}
	}
}

// errNoSingle skips what takes Options.Single.
var errNoSingle = skipf("there is no second process of the kernel, with one thread")

// readOnly is a case whose inputs lie in memory that the kernel cannot write, as those of
// a training run do: one that uses them as scratch and restores them is found here only.
func (t *trial) readOnly(ctx context.Context) error {
	if t.options.Inputs == nil {
		return skipf("there is no such memory for a kernel in this process")
	}
	t.prepare(ctx, t.of).run(ctx, t.kernel, t.options.Inputs, t.Result)
	return nil
}
