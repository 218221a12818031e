package kerneltest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/seed98097648/tune/core"
)

const (
	seriesRounds = 64 // how many series are run
	seriesPlaces = 6  // whose passes are in one
	// longSeries is how many calls one of them has: more than a plugin may take at once.
	longSeries = 260
)

// inSeries has calls run one behind the other in one request, as a run has those that nothing comes between: what it
// compares is never one of these. Each must give what it gives alone, also where it takes what one before it gives.
// There is nothing to do where the kernel's process takes no series.
func (t *trial) inSeries(ctx context.Context, rng *rand.Rand, places []visited) {
	var chains []chain
	for round := range seriesRounds {
		s := &series{trial: t, when: fmt.Sprintf("series %d", round+1)}
		for _, at := range rng.Perm(len(places))[:min(len(places), seriesPlaces)] {
			p := places[at]
			v := p.versions[rng.IntN(len(p.versions))]
			for _, pass := range passes(p.kernel) {
				v.runPassAt(ctx, p.place, pass, v.first, v.first, poisons[0], t.Result) // alone
				s.add(p.place, pass, v)
			}
		}
		s.run(ctx)
		if t.Status == Failed || len(s.steps) < 2 {
			return
		}
		if round == 0 {
			chains = t.chains(ctx, places)
		}
		for _, c := range chains {
			s := &series{trial: t, when: fmt.Sprintf("series %d, of calls that take what those before them give", round+1)}
			c.version.load(c.place)
			for _, call := range c.calls {
				s.addCall(c.kernel, call, c.version)
			}
			s.run(ctx)
		}
	}
	t.longSeries(ctx, places[0])
}

// series are calls for one request, and the data of each.
type series struct {
	*trial
	when     string
	runs     core.Series
	steps    []core.Step
	versions []version
}

// add adds a pass of a place, if it can be run with the others.
func (s *series) add(at place, pass core.Pass, v version) { s.addCall(at.kernel, at.calls[pass], v) }

func (s *series) addCall(of core.Kernel, c *core.Call, v version) {
	if runs, k := core.SeriesOf(of, c); runs != nil && (s.runs == nil || s.runs == runs) {
		s.runs, s.steps, s.versions = runs, append(s.steps, core.Step{Kernel: k, Call: c}), append(s.versions, v)
	}
}

// run runs them, and compares what each gives with what it gave alone.
func (s *series) run(ctx context.Context) {
	if s.Status == Failed || len(s.steps) < 2 {
		return
	}
	for _, step := range s.steps {
		poison(step.Call, poisons[1])
	}
	if n, err := s.runs.RunSeries(ctx, s.steps, nil); err != nil {
		s.fail(violation(s.steps[n].Call.Pass, "", fmt.Errorf("error: %w", err)))
	}
	for i, step := range s.steps {
		if s.Status != Failed {
			s.versions[i].compareAt(step.Call, s.versions[i].first, s.versions[i].first, s.Result)
		}
		if s.Status == Failed {
			s.prefix("%s, call %d of %d, %s%v with %d tokens: ", s.when, i+1, len(s.steps), s.other(step.Call.Op),
				step.Call.Facts, step.Call.Tokens())
			return
		}
	}
}

// chain are a forward call, and a backward call for which its outputs are gradients.
type chain struct {
	place
	calls   []*core.Call
	version version // of which first has what the calls give alone, one after the other
}

// chains makes them for the places where that is possible, and runs each call of them alone.
func (t *trial) chains(ctx context.Context, places []visited) (all []chain) {
	for _, p := range places {
		if len(passes(p.kernel)) < 2 || t.Status == Failed {
			continue
		}
		forward, backward := p.calls[core.Forward], *p.calls[core.Backward]
		backward.In = slices.Clone(backward.In)
		links := 0
		for i, a := range tensors(backward.Sig.In) {
			for j, out := range tensors(forward.Sig.Out) {
				if a.Name == "d"+out.Name && a.DType == out.DType && forward.Out[j].Shape.Equal(backward.In[i].Shape) {
					backward.In[i] = forward.Out[j]
					links++
				}
			}
		}
		if links == 0 {
			continue
		}
		v := version{p.versions[0].prepared, outputs{}}
		v.runPassAt(ctx, p.place, core.Forward, nil, v.first, poisons[0], t.Result)
		if err := runPoisoned(ctx, p.kernel, &backward, poisons[0]); err != nil {
			t.fail(violation(core.Backward, "", err))
		}
		for i, a := range tensors(backward.Sig.Out) {
			v.first[core.Backward.String()+a.Name] = copied(backward.Out[i])
		}
		all = append(all, chain{p.place, []*core.Call{forward, &backward}, v})
	}
	return all
}

func copied(x core.Tensor) core.Tensor {
	c := core.NewTensor(x.DType, x.Shape...)
	copy(c.Data, x.Data)
	return c
}

// longSeries runs more calls than fit into one request, each with outputs of its own.
func (t *trial) longSeries(ctx context.Context, p visited) {
	s := &series{trial: t, when: "a long series"}
	v := p.versions[0]
	for range longSeries {
		at, err := v.place(p.kernel, t.memory)
		if err != nil {
			t.fail(general(err))
			return
		}
		s.add(at, core.Forward, v)
	}
	s.run(ctx)
}
