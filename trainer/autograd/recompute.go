package autograd

import (
	"slices"

	"github.com/seed98097648/tune/core"
)

// region is a part of the forward pass between Checkpoint and the function it returns.
type region struct{ _ byte } // not empty, because each must have an address of its own

// Checkpoint makes the values of the operations recorded from now on, until the function
// that it returns is called, be computed a second time for the backward pass instead of
// being kept in memory from the first. Kept are the values that operations outside read,
// and those of Keep. It trades the time of these operations' forward pass for memory; a
// program gives the same bits either way, as long as its operations do.
//
// An operation with Again is not run a second time: what it reads from outside the region,
// and what only it reads from another one, need not be kept for it.
func (g *Graph) Checkpoint() (leave func()) {
	outer := g.region
	g.region = &region{}
	return func() { g.region = outer }
}

// Aside records operations outside of all regions, until the function that it returns is
// called: what they read is kept.
func (g *Graph) Aside() (back func()) {
	inner := g.region
	g.region = nil
	return func() { g.region = inner }
}

// recompute inserts, before the first backward instruction that needs a value that a
// region does not keep, the instructions that compute the region's values again.
func recompute(tape []*instr) []*instr {
	r := &recomputing{inner: inner(tape), needed: map[*slot]bool{}, again: map[*slot]*slot{}, done: map[*region]bool{}}
	for _, in := range slices.Backward(tape) {
		if in.pass == core.Backward || r.needs(in) {
			for s := range repeated(in).reads {
				r.needed[s] = true
			}
		}
	}
	var out []*instr
	for _, in := range tape {
		if in.pass == core.Forward {
			out = append(out, in)
			continue
		}
		for s := range in.reads {
			if home := r.inner[s]; home != nil && !r.done[home] {
				r.done[home] = true
				out = append(out, r.repeat(home, tape)...)
			}
		}
		r.redirect(in.in)
		out = append(out, in)
	}
	return dropDead(out)
}

type recomputing struct {
	inner  map[*slot]*region // the values that are not kept, and where they belong
	needed map[*slot]bool    // what the backward pass needs, directly or not
	again  map[*slot]*slot   // the second place of a value
	done   map[*region]bool
}

// inner finds the values that only their own region and the backward pass read.
func inner(tape []*instr) map[*slot]*region {
	home := map[*slot]*region{}
	for _, in := range tape {
		if in.pass == core.Backward {
			break
		}
		for s := range in.reads {
			if in.region != home[s] && (in.cheaper == nil || readsAgain(in, s)) {
				delete(home, s)
			}
		}
		for k, s := range in.writes {
			if in.region != nil && !s.keep && (in.cheaper == nil || slices.Contains(in.cheaper.Writes, k)) {
				home[s] = in.region
			}
		}
	}
	return home
}

// repeated returns the instruction that computes again what one of the forward pass does;
// one of the backward pass is returned as it is.
func repeated(in *instr) *instr {
	if in.pass == core.Forward && in.cheaper != nil {
		return newAgain(in)
	}
	return in
}

// readsAgain reports whether an instruction with a cheaper way reads a value in that, too.
func readsAgain(in *instr, s *slot) bool {
	return slices.ContainsFunc(repeated(in).in, func(r ref) bool { return r.slot == s })
}

// needs reports whether an instruction computes something that is needed again.
func (r *recomputing) needs(in *instr) bool {
	for _, s := range in.writes {
		if r.inner[s] != nil && r.needed[s] {
			return true
		}
	}
	return false
}

// repeat returns the instructions that compute what is needed of a region again.
func (r *recomputing) repeat(home *region, tape []*instr) []*instr {
	var out []*instr
	for _, in := range tape {
		if in.region != home || !r.needs(in) {
			continue
		}
		again := *repeated(in)
		again.pass, again.again = core.Backward, true
		again.in, again.out = slices.Clone(again.in), slices.Clone(again.out)
		r.redirect(again.in)
		for k, s := range again.writes {
			place := &slot{spec: s.spec, mem: s.mem}
			again.out[k].slot, r.again[s] = place, place
		}
		out = append(out, &again)
	}
	return out
}

// redirect makes references to values that are computed again refer to their second place.
func (r *recomputing) redirect(refs []ref) {
	for i, x := range refs {
		if s := r.again[x.slot]; s != nil && r.inner[x.slot] != nil {
			refs[i].slot = s
		}
	}
}
