package kerneltest

import (
	"context"

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
	if p.in, p.err = newInputs(c, &memory{Memory: heap{}}, false); p.err != nil {
		return p
	}
	for _, pass := range passes {
		if p.want[pass], p.err = p.in.expect(ctx, pass); p.err != nil {
			break
		}
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
	from := m
	if inputs != nil {
		from = &memory{Memory: inputs}
		defer from.free()
	}
	in, err := p.in.copied(from)
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
