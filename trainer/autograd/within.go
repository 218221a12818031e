package autograd

import "errors"

// ErrUnlike is the error of a graph that cannot have its program in the memory of another, because they are not of the
// same operations.
var ErrUnlike = errors.New("autograd: the graph is not like the one in whose memory it is to be")

// Within has the program that Compile makes lie in the memory of another, which is of the same operations on as many
// rows or more: every buffer lies where the other program has the same one. So both have the gradients of their
// parameters in one place, and a sum over several runs may be over runs of both; see Accumulate. What else a run has
// left is gone when the other one runs. What they cost is counted together, in the Stats of the other, which must be
// closed last. Compile gives an error that is ErrUnlike if their operations differ. nil stands for memory of its own.
func (g *Graph) Within(p *Program) { g.within = p }

// lieIn gives the buffers the places that they have in another program. They fit: the lives of buffers are as long in
// both, and none is larger here.
func (p *Program) lieIn(other *Program) error {
	if len(p.tape) != len(other.tape) || len(p.params) != len(other.params) {
		return ErrUnlike
	}
	there := map[*slot]*slot{} // the other program's buffer, of each
	for i, in := range p.tape {
		if !in.like(other.tape[i]) {
			return ErrUnlike
		}
		for k, s := range in.writes {
			there[s] = other.tape[i].out[k].slot
		}
	}
	for s, t := range there {
		if !s.fits(t) || there[s.root] != t.root {
			return ErrUnlike
		}
	}
	for i, param := range p.params {
		if there[p.grads[param]] != other.grads[other.params[i]] {
			return ErrUnlike
		}
	}
	for s, t := range there {
		n := s.spec.bytes()
		s.tensor.DType, s.tensor.Shape, s.tensor.Data = s.spec.DType, s.spec.Shape, t.tensor.Data[:n:n]
	}
	for i, in := range p.tape {
		in.stat = other.tape[i].stat
	}
	p.stats = other.stats
	return nil
}

// like reports whether two instructions are the same, whatever the size of their buffers.
func (in *instr) like(other *instr) bool {
	same := in.op == other.op && in.kernel == other.kernel && in.path == other.path && in.pass == other.pass &&
		in.again == other.again && in.sum == other.sum && len(in.in) == len(other.in) && len(in.out) == len(other.out)
	for k := 0; same && k < len(in.out); k++ {
		same = (in.out[k].slot == nil) == (other.out[k].slot == nil)
	}
	return same
}

// fits reports whether a buffer can lie where another one does, for as long as that.
func (s *slot) fits(t *slot) bool {
	return s.mem == t.mem && s.first == t.first && s.last == t.last && s.spec.DType == t.spec.DType &&
		s.spec.bytes() <= t.spec.bytes()
}
