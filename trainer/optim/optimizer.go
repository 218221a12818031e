package optim

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Param is one trainable tensor and its gradient. A matrix that a model uses twice (tied
// embeddings) is one Param.
type Param struct {
	Name  string
	Shape core.Shape // of a tensor that is not a vector; it has as many elements as Value
	Value []float32  // changed in place by Step
	Half  []uint16   // the value as bits of bfloat16, instead of Value; see Config.Seed
	Grad  []float32  // as long as the value; only read; nil where Update gets it
	Decay bool       // whether weight decay applies
	Rate  float64    // what the learning rate is multiplied by; 0 means 1
	from  int        // the element that Grad begins with
}

// gradient returns that of elements [lo, hi).
func (p *Param) gradient(lo, hi int) []float32 { return p.Grad[lo-p.from : hi-p.from] }

// elems returns how many elements the parameter has.
func (p *Param) elems() int {
	if p.Shape != nil {
		return p.Shape.Elems()
	}
	return max(len(p.Value), len(p.Half))
}

// shape returns that of the parameter.
func (p *Param) shape() core.Shape {
	if p.Shape != nil {
		return p.Shape
	}
	return core.Shape{p.elems()}
}

// check reports a parameter whose sizes do not fit together.
func (p *Param) check() error {
	if n := max(len(p.Value), len(p.Half)); n != p.elems() {
		return fmt.Errorf("optim: parameter %s has %d elements, but is %v", p.Name, n, p.Shape)
	}
	if p.Grad != nil && len(p.Grad) != p.elems() {
		return fmt.Errorf("optim: parameter %s has %d elements, but its gradient has %d", p.Name, p.elems(), len(p.Grad))
	}
	return nil
}

// Optimizer changes parameters from gradients, as its Config says.
type Optimizer struct {
	config Config
	rule   rule
	params []Param
	t      int // steps done, or begun
	state  [][]core.Tensor
}

// rule is how one kind of optimizer changes a parameter.
type rule interface {
	// keeps says what is remembered of a parameter between steps.
	keeps(p *Param) []slot
	// change prepares a step, and returns what changes the elements [lo, hi) of the parameter, which it
	// gets as value. It is called for several such ranges at once, of which each begins at a multiple of block.
	change(s *step, p *Param, state []core.Tensor) func(value []float32, lo, hi int)
}

// slot is one tensor that is remembered of a parameter.
type slot struct {
	name  string
	dtype core.DType
	shape core.Shape
}

func (s slot) bytes() int { return s.shape.Elems() * s.dtype.Size() }

// step is what all elements of a parameter share in a step.
type step struct {
	t     int     // from 1
	lr    float64 // of this parameter
	scale float64 // of the gradient
	decay float64 // weight decay of this parameter
}

// keep is what decoupled weight decay leaves of an element.
func (s *step) keep() float32 { return float32(1 - float64(s.lr*s.decay)) }

// New returns an optimizer of the parameters, which remembers nothing yet. It keeps their slices, not copies.
// What it remembers lies in memory from alloc, which returns n bytes of zeros, or on the heap where that is nil;
// the caller gives it back, once the optimizer is used no more. Errors name the parameter.
func New(config Config, params []Param, alloc func(n int) ([]byte, error)) (*Optimizer, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("optim: %s: %w", cmp.Or(config.Kind, AdamW), err)
	}
	o := &Optimizer{config: config, rule: config.rule(), params: params}
	seen := make(map[string]bool, len(params))
	for i := range params {
		p := &params[i]
		if err := p.check(); err != nil {
			return nil, err
		}
		if seen[p.Name] {
			return nil, fmt.Errorf("optim: parameter %s is given twice; give a tied matrix once", p.Name)
		}
		seen[p.Name] = true
		var state []core.Tensor
		for _, s := range o.rule.keeps(p) {
			t := core.Tensor{DType: s.dtype, Shape: s.shape}
			if alloc == nil {
				t = core.NewTensor(s.dtype, s.shape...)
			} else if data, err := alloc(s.bytes()); err != nil {
				return nil, fmt.Errorf("optim: %s of %s: %w", s.name, p.Name, err)
			} else {
				t.Data = data
			}
			state = append(state, t)
		}
		o.state = append(o.state, state)
	}
	return o, nil
}

// SetGradients makes later steps read other gradients, in the order of the parameters, and each
// as long as its own. It keeps the slices.
func (o *Optimizer) SetGradients(grads [][]float32) error {
	if len(grads) != len(o.params) {
		return fmt.Errorf("optim: %d gradients for %d parameters", len(grads), len(o.params))
	}
	for i, p := range o.params {
		p.Grad = grads[i]
		if err := p.check(); err != nil {
			return err
		}
	}
	for i := range o.params {
		o.params[i].Grad = grads[i]
	}
	return nil
}

// T returns how many steps were done, or begun.
func (o *Optimizer) T() int { return o.t }

// SetT says how many steps were done, of an optimizer whose state was read with Each.
func (o *Optimizer) SetT(steps int) { o.t = steps }

// Each calls use for every tensor that is remembered, itself and not a copy: the next step changes it.
// A checkpoint has to keep them, by their names, and T, for a run to continue exactly.
func (o *Optimizer) Each(use func(name string, t core.Tensor) error) error {
	for i := range o.params {
		for k, s := range o.rule.keeps(&o.params[i]) {
			if err := use(s.name+"."+o.params[i].Name, o.state[i][k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// block is a number of elements that are always changed together, atOnce how many are changed by one call where it
// has scratch memory for them, and grain the least that is worth a goroutine of its own.
const block, atOnce, grain = simd.CodeBlock, 4 * block, 1 << 13

// Step updates every parameter from its gradient times gradScale, which is what
// ClipCoefficient returns: clipping costs no pass over the gradients of its own.
func (o *Optimizer) Step(lr, gradScale float64) {
	o.Begin()
	for i := range o.params {
		o.Update(lr, gradScale, Piece{Param: i, Grad: o.params[i].Grad})
	}
}

// Begin begins a step, in which Update is called once for each element of each parameter.
func (o *Optimizer) Begin() { o.t++ }

// Piece is what there is a gradient of at once: all of a parameter, or its elements from one on; see Config.Unit.
type Piece struct {
	Param int // in the order given to New
	From  int // the element that Grad begins with
	Grad  []float32
}

// Update changes pieces of parameters from their gradients times gradScale. Several at once take less time than
// one after the other, since threads wait for each other only at the end.
func (o *Optimizer) Update(lr, gradScale float64, pieces ...Piece) {
	if o.config.Unit() == 0 { // each has scratch memory of its own
		for _, p := range pieces {
			each := o.begin(p, lr, gradScale)
			simd.Parallel(each.blocks(), grain/block, each.change)
		}
		return
	}
	all, total := make([]changes, len(pieces)), 0
	for i, p := range pieces {
		all[i] = o.begin(p, lr, gradScale)
		total += all[i].blocks()
	}
	simd.Parallel(total, grain/block, func(lo, hi int) {
		for i := range all {
			n := all[i].blocks()
			if lo < min(n, hi) {
				all[i].change(lo, min(n, hi))
			}
			lo, hi = max(lo-n, 0), max(hi-n, 0)
		}
	})
}

// changes is the update of one piece.
type changes struct {
	Piece
	param  *Param
	values func(value []float32, lo, hi int)
	round  rounding
}

// begin prepares the update of a piece.
func (o *Optimizer) begin(piece Piece, lr, gradScale float64) changes {
	p := o.params[piece.Param]
	p.Grad, p.from = piece.Grad, piece.From
	s := &step{t: o.t, lr: lr * cmp.Or(p.Rate, 1), scale: gradScale}
	if p.Decay {
		s.decay = o.config.WeightDecay
	}
	c := changes{Piece: piece, param: &p, values: o.rule.change(s, &p, o.state[piece.Param])}
	if p.Half != nil {
		c.round = newRounding(o.config.Seed, o.t, p.Name)
	}
	return c
}

func (c *changes) blocks() int { return (len(c.Grad) + block - 1) / block }

// change changes blocks [lo, hi) of the piece.
func (c *changes) change(lo, hi int) {
	lo, hi = c.From+lo*block, min(c.From+hi*block, c.From+len(c.Grad))
	if c.param.Half == nil {
		c.values(c.param.Value[lo:hi], lo, hi)
		return
	}
	wide := widened.Get().(*[atOnce]float32)
	defer widened.Put(wide)
	for ; lo < hi; lo += len(wide) {
		part := wide[:min(len(wide), hi-lo)]
		half := c.param.Half[lo : lo+len(part)]
		simd.BFloat16ToFloat32(part, half)
		c.values(part, lo, lo+len(part))
		c.round.store(half, part, lo)
	}
}

// widened are elements of bfloat16 as an update sees them: too large for a stack, and there are many updates.
var widened = sync.Pool{New: func() any { return new([atOnce]float32) }}

// float32s is a slot of as many float32 as the parameter has, and of its shape.
func (p *Param) float32s(name string) slot { return slot{name, core.Float32, p.shape()} }
