package kerneltest

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ops"
)

// turn is a case with what the reference gives for its passes.
type turn struct {
	in    *inputs
	want  map[core.Pass]expected
	calls map[core.Pass]*core.Call // with outputs in the kernel's memory
}

func newTurn(ctx context.Context, k core.Kernel, c Case, inputs, outputs *memory) (t turn, err error) {
	return againTurn(ctx, k, c, inputs, outputs, nil)
}

// againTurn is newTurn with what the reference gave for the same case before, if anything.
func againTurn(ctx context.Context, k core.Kernel, c Case, inputs, outputs *memory, want map[core.Pass]expected) (t turn, err error) {
	t = turn{want: map[core.Pass]expected{}, calls: map[core.Pass]*core.Call{}}
	if t.in, err = newInputs(c, inputs, false); err != nil {
		return t, err
	}
	for _, pass := range passes(k) {
		if e, ok := want[pass]; ok {
			t.want[pass], err = e, t.in.save(e.want)
		} else {
			t.want[pass], err = t.in.expect(ctx, pass)
		}
		if err != nil {
			return t, err
		}
		if t.calls[pass], _, err = t.in.call(pass, outputs); err != nil {
			return t, err
		}
	}
	return t, nil
}

// data returns copies of all inputs, in the order of load.
func (t turn) data() [][]byte {
	var all [][]byte
	for _, x := range t.in.tensors {
		all = append(all, append([]byte(nil), x.Data...))
	}
	return all
}

func (t turn) load(data [][]byte) {
	for i, x := range t.in.tensors {
		copy(x.Data, data[i])
	}
}

// run runs all passes and compares them with what is wanted or, bit by bit, with what
// they gave before, if that is not nil. It returns what they gave now.
func (t turn) run(ctx context.Context, k core.Kernel, want map[core.Pass]expected, before map[string]core.Tensor, poison byte, r *Result) map[string]core.Tensor {
	now := map[string]core.Tensor{}
	for _, pass := range passes(k) {
		t.runPass(ctx, k, pass, want[pass], before, now, poison, r)
	}
	return now
}

// runPass is run for one pass. What it gave is added to now.
func (t turn) runPass(ctx context.Context, k core.Kernel, pass core.Pass, want expected, before, now map[string]core.Tensor, poison byte, r *Result) {
	c := t.calls[pass]
	if err := runPoisoned(ctx, k, c, poison); err != nil {
		r.fail(violation(pass, "", err))
		return
	}
	for i, name := range names(c.Sig.Out) {
		key := pass.String() + name
		share, err := 0.0, error(nil)
		if was, ok := before[key]; ok {
			now[key], err = was, sameBits(was, c.Out[i])
		} else {
			x := core.NewTensor(c.Out[i].DType, c.Out[i].Shape...)
			copy(x.Data, c.Out[i].Data)
			now[key] = x
			share, err = want.compare(i, x)
		}
		r.Share = max(r.Share, share)
		if err != nil {
			r.fail(violation(pass, name, err))
		}
	}
}

// inTurn finds results that depend on earlier calls, such as those of a kernel that keeps
// what it once computed: it runs a call, the same with other data in the same memory, the
// first again, one with other numbers in the middle of its inputs only, one with fewer tokens,
// and the first again.
func inTurn(ctx context.Context, k core.Kernel, f core.Facts) Result {
	c := specialCase(k, f, "calls in turn", 13)
	r := newResult(c)
	m := newMemory(k)
	defer m.free()
	other, short, middle := c, c, c
	other.Seed, short.Seed, short.Tokens, middle.Edit = c.Seed+1, c.Seed+2, 5, negateMiddle
	var turns [4]turn
	for i, c := range []Case{c, short, other, middle} {
		from := m
		if i > 1 {
			from = &memory{Memory: heap{}} // its data is copied over the first's
		}
		var err error
		if turns[i], err = newTurn(ctx, k, c, from, m); err != nil {
			r.fail(general(err))
			return r
		}
	}
	a, less, b, mid := turns[0], turns[1], turns[2], turns[3]
	original := a.data()
	var first map[string]core.Tensor
	for i, step := range []struct {
		when   string
		turn   turn
		data   [][]byte
		want   map[core.Pass]expected
		before bool
	}{
		{"in the first call", a, original, a.want, false},
		{"after a call with other data in the same memory", a, b.data(), b.want, false},
		{"after another, with the data of the first call", a, original, a.want, true},
		{"after a call that differs in the middle of each input only", a, mid.data(), mid.want, false},
		{"after calls with more tokens", less, less.data(), less.want, false},
		{"after a call with fewer tokens", a, original, a.want, true},
	} {
		step.turn.load(step.data)
		var before map[string]core.Tensor
		if step.before {
			before = first
		}
		now := step.turn.run(ctx, k, step.want, before, poisons[i%2], &r)
		if i == 0 {
			first = now
		}
		if r.Status == Failed {
			for j := range r.Violations {
				r.Violations[j].Text = step.when + ": " + r.Violations[j].Text
			}
			return r
		}
	}
	return r
}

// negateMiddle changes one number in the middle of each input. A kernel that keeps what it
// made of an input, and looks at the ends of it only to see whether it is still the same, goes
// on with the old one.
func negateMiddle(in map[string][]core.Tensor) {
	for name, tensors := range in {
		if name == "routing_weights" { // which are probabilities
			continue
		}
		for _, x := range tensors {
			if x.DType == core.Int32 {
				continue
			}
			mid, v := x.Elems()/2, []float32{0}
			x.Load(v, mid)
			v[0] = -v[0]
			x.Store(v, mid)
		}
	}
}

// repeated runs one call many times, on enough tokens that a kernel will use all its
// threads, and wants the same bits every time. It finds a race only if that shows: a
// result that goes wrong in one of n runs is missed by m runs with a chance of (1-1/n)^m.
func repeated(ctx context.Context, k core.Kernel, f core.Facts, times int) Result {
	r := newResult(specialCase(k, f, fmt.Sprintf("the same call %d times", times), 512))
	m := newMemory(k)
	defer m.free()
	c := specialCase(k, f, r.Kind, r.Tokens)
	t, err := newTurn(ctx, k, c, m, m)
	if err != nil {
		r.fail(general(err))
		return r
	}
	var first map[string]core.Tensor
	for i := range times {
		now := t.run(ctx, k, t.want, first, poisons[i%2], &r)
		if r.Status == Failed {
			for j := range r.Violations {
				r.Violations[j].Text = fmt.Sprintf("call %d of %d: %s", i+1, times, r.Violations[j].Text)
			}
			return r
		}
		if i == 0 {
			first = now
		}
	}
	return r
}

// oneThread finds results that depend on how many threads compute them, such as sums over
// rows that are cut into as many parts: a run on another machine would differ. Single is
// the same kernel where it has one thread.
func oneThread(ctx context.Context, k, single core.Kernel, f core.Facts) Result {
	c := specialCase(k, f, "one thread or more", 512)
	r := newResult(c)
	if single == nil {
		r.skip("there is no second process of the kernel, with one thread")
		return r
	}
	var before map[string]core.Tensor
	var want map[core.Pass]expected
	for _, k := range []core.Kernel{k, single} {
		m := newMemory(k)
		defer m.free()
		t, err := againTurn(ctx, k, c, m, m, want)
		if err != nil {
			r.fail(general(err))
			return r
		}
		before, want = t.run(ctx, k, t.want, before, poisons[0], &r), t.want
		if r.Status == Failed {
			break
		}
	}
	for i := range r.Violations {
		r.Violations[i].Text = "the same call with one thread and with more: " + r.Violations[i].Text
	}
	return r
}

// readOnly is a case whose inputs lie in memory that the kernel cannot write, as those of
// a training run do: one that uses them as scratch and restores them is found here only.
func readOnly(ctx context.Context, k core.Kernel, f core.Facts, inputs core.Memory) Result {
	c := specialCase(k, f, "read-only inputs", 13)
	if inputs == nil {
		r := newResult(c)
		r.skip("there is no such memory for a kernel in this process")
		return r
	}
	return result(ctx, k, c, inputs)
}

// specialCase is a case on random data that CasesFor does not have.
func specialCase(k core.Kernel, f core.Facts, kind string, tokens int) Case {
	op := k.Info().Op
	return Case{Name: fmt.Sprintf("%s %v T=%d %s", op, f, tokens, kind), Kind: kind, Op: op, Facts: f, Tokens: tokens, Seed: uint64(tokens), Positions: ops.Of(op).Positions}
}
