package kerneltest

import (
	"context"
	"maps"

	"github.com/seed98097648/tune/core"
)

// prepared is a case whose inputs are made, on the heap, and what the reference gives for
// each pass.
type prepared struct {
	in   *inputs
	want map[core.Pass]expected
	err  error
}

// prepare works out what a kernel with these passes is to give.
func prepare(ctx context.Context, c Case, passes []core.Pass) prepared {
	p := prepared{want: map[core.Pass]expected{}}
	if p.in, p.err = newInputs(c, &memory{Memory: heap{}}, c.aligned); p.err != nil {
		return p
	}
	for _, pass := range passes {
		if p.want[pass], p.err = p.in.expect(ctx, pass); p.err != nil {
			break
		}
	}
	return p
}

// shelf has what was prepared last of the uses with some facts: some trials are about the same data.
type shelf map[shelved]prepared

// shelved is what the data of a case depends on, if nobody edits it.
type shelved struct {
	op        core.Op
	facts     core.Facts
	tokens    int
	positions int
	seed      uint64
}

// prepare is prepare for the kernel of the trial, or what that gave before.
func (t *trial) prepare(ctx context.Context, c Case) prepared {
	key, known := shelved{c.Op, c.Facts, c.Tokens, c.Positions, c.Seed}, t.options.prepared
	if c.Edit != nil || c.aligned || known == nil {
		return prepare(ctx, c, passes(t.kernel))
	}
	if p, ok := known[key]; ok {
		return p
	}
	p := prepare(ctx, c, passes(t.kernel))
	if p.err == nil {
		maps.DeleteFunc(known, func(other shelved, _ prepared) bool { return other.facts != c.Facts })
		known[key] = p
	}
	return p
}

// ahead prepares cases, in this order, while the kernel runs the one before: the reference
// takes longer than the kernel, which leaves a processor free meanwhile. No more than one
// case waits, as its tensors take memory. It ends when ctx does.
func ahead(ctx context.Context, cases []Case, passes []core.Pass) <-chan prepared {
	all := make(chan prepared)
	go func() {
		defer close(all)
		for _, c := range cases {
			select {
			case all <- prepare(ctx, c, passes):
			case <-ctx.Done():
				return
			}
		}
	}()
	return all
}

// run runs the case. The inputs lie in memory of the caller's choice, whose blocks are
// freed; nil means where the outputs lie.
func (p prepared) run(ctx context.Context, k core.Kernel, inputs core.Memory, r *Result) {
	if p.err != nil {
		r.fail(general(p.err))
		return
	}
	m := newMemory(k)
	defer m.free()
	in, err := p.in.copied(m.orIn(inputs))
	if err != nil {
		r.fail(general(err))
		return
	}
	for _, pass := range passes(k) {
		share, v := in.checkPass(ctx, k, pass, p.want[pass], m)
		r.Share = max(r.Share, share)
		r.fail(v...)
	}
}

// place is a case's calls, and their tensors, at fixed addresses in a kernel's memory.
type place struct {
	kernel core.Kernel
	in     *inputs
	calls  map[core.Pass]*core.Call
}

// place finds room for the case. Other cases of its sizes can be run there too.
func (p prepared) place(k core.Kernel, m *memory) (at place, err error) {
	if p.err != nil {
		return at, p.err
	}
	at = place{kernel: k, calls: map[core.Pass]*core.Call{}}
	if at.in, err = p.in.copied(m); err != nil {
		return at, err
	}
	for _, pass := range passes(k) {
		if at.calls[pass], _, err = at.in.call(pass, m); err != nil {
			return at, err
		}
	}
	return at, nil
}

// outputs are copies of what calls gave, by pass and name.
type outputs map[string]core.Tensor

// run runs a case in a place, all passes, and compares what they give with what the
// reference gives or, bit by bit, with what they gave before, if that is not nil. It returns
// what they gave now.
func (p prepared) runAt(ctx context.Context, at place, before outputs, poison byte, r *Result) outputs {
	now := outputs{}
	for _, pass := range passes(at.kernel) {
		p.runPassAt(ctx, at, pass, before, now, poison, r)
	}
	return now
}

// runPassAt is runAt for one pass. What it gave is added to now.
func (p prepared) runPassAt(ctx context.Context, at place, pass core.Pass, before, now outputs, poison byte,
	r *Result) {
	p.load(at)
	c := at.calls[pass]
	if err := runPoisoned(ctx, at.kernel, c, poison); err != nil {
		r.fail(violation(pass, "", err))
		return
	}
	p.compareAt(c, before, now, r)
}

// load puts the case's inputs into a place, where those of a call before may be still.
func (p prepared) load(at place) {
	if at.in.of == p.in {
		return
	}
	for i, x := range at.in.tensors {
		copy(x.Data, p.in.tensors[i].Data)
	}
	at.in.of = p.in
}

// compareAt is what runPassAt does with a call that has been run.
func (p prepared) compareAt(c *core.Call, before, now outputs, r *Result) {
	for i, a := range tensors(c.Sig.Out) {
		key := c.Pass.String() + a.Name
		share, err := 0.0, error(nil)
		if was, ok := before[key]; ok {
			now[key], err = was, sameBits(was, c.Out[i])
		} else {
			x := copied(c.Out[i])
			now[key] = x
			share, err = p.want[c.Pass].compare(i, x)
		}
		r.Share = max(r.Share, share)
		if err != nil {
			r.fail(violation(c.Pass, a.Name, err))
		}
	}
}
