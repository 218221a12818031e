package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// Param is a tensor of a model: trainable and float32 in memory, or frozen, which may be in
// half precision, int8 or NF4. It may hold several tensors of a checkpoint side by side, such as
// the experts of a layer, so that kernels see one packed matrix and files keep their names.
type Param struct {
	Name    string
	Tensor  core.Tensor
	Entries []Entry
	Frozen  bool // it gets no gradient
	// AroundZero says that random weights begin at 0, not at 1 as those of other norms.
	AroundZero bool
	// Tied is what files that do not tie call it besides: of an embedding that is the head, too.
	Tied   string
	Scale  []float32 // of an int8 tensor: what the elements of each row are multiplied by; of one in NF4 see simd.NF4
	scale  core.Tensor
	absmax core.Tensor // of a tensor in NF4: the code of what each block is multiplied by
	buffer bool        // see Builder.Buffer

	content, scaleContent, absmaxContent uint64 // see Changed
}

// Entry is a tensor of a checkpoint within a parameter.
type Entry struct {
	Name   string
	Offset int // elements from the parameter's start
	Shape  core.Shape
}

// View returns the entry's part of a tensor laid out like the parameter: the parameter
// itself, or its gradient.
func (e Entry) View(t core.Tensor) core.Tensor {
	return t.Slice(e.Offset, e.Offset+e.Shape.Elems(), e.Shape...)
}

// Builder collects the parameters and sites of a model under construction. The first
// error is kept; see Err.
type Builder struct {
	mem     core.Memory
	storage func(p *Param) core.DType // of frozen parameters; nil while parameters are trainable
	narrow  core.DType                // of matrices that are trained; InvalidDType for float32
	scaling func(path string) core.Scaling
	params  []*Param
	buffers []*Param
	sites   []core.Site
	cached  []*site // of Body.Paged, two for each attention
	targets []Target
	layers  []*Linear // all but routers
	gates   []*Linear // of routers
	use     *use
	tied    string // of the next parameter; see Param.Tied
	err     error
}

// use is what a model's sites and its graphs have to know of each other.
type use struct {
	graphs int // compiled and not closed
	swaps  int // changes of any site's kernel so far

	variants []*Variant
}

// NewBuilder returns a builder that allocates parameters in mem.
func NewBuilder(mem core.Memory) *Builder {
	b := &Builder{mem: mem, use: new(use)}
	if mem == nil {
		b.err = noMemory("parameters")
	}
	return b
}

func noMemory(what string) error {
	return fmt.Errorf("nn: there is no memory for %s: pass one of transport.NewMemory, "+
		"or autograd.Heap{} for a program without plugins", what)
}

// Err returns the first error.
func (b *Builder) Err() error { return b.err }

// Param adds a parameter that is one tensor of the checkpoint.
func (b *Builder) Param(name string, shape ...int) *Param {
	return b.packed(name, []Entry{{Name: name, Shape: shape}}, shape...)
}

// packed adds a parameter that holds several tensors of the checkpoint.
func (b *Builder) packed(name string, entries []Entry, shape ...int) *Param {
	p := &Param{Name: name, Entries: entries, Tensor: core.Tensor{DType: core.Float32, Shape: shape}}
	if b.tied != "" {
		p.Tied, b.tied = b.tied, ""
	}
	if b.storage != nil {
		if dtype := b.storage(p); dtype != core.InvalidDType {
			p.Frozen, p.Tensor.DType = true, dtype
		}
	}
	if !p.Frozen && b.narrow != core.InvalidDType && len(shape) > 1 {
		p.Tensor.DType = b.narrow
	}
	if b.err != nil {
		return p // the model will not be used
	}
	if err := p.alloc(b.mem); err != nil {
		b.err = err
		return p
	}
	b.params = append(b.params, p)
	return p
}

// alloc gives the parameter memory for its dtype and shape.
func (p *Param) alloc(mem core.Memory) error {
	n, err := bytesOf(p.Tensor.DType, p.Tensor.Shape)
	if err == nil {
		p.Tensor.Data, err = mem.Alloc(n)
	}
	if err != nil {
		return fmt.Errorf("nn: parameter %s %v: %w", p.Name, p.Tensor.Shape, err)
	}
	switch p.Tensor.DType {
	case core.Int8:
		err = p.allocScale(mem, p.Tensor.Rows())
	case core.NF4:
		err = p.allocNF4(mem)
	}
	if err != nil {
		p.free(mem)
		return fmt.Errorf("nn: scale of parameter %s %v: %w", p.Name, p.Tensor.Shape, err)
	}
	return nil
}

func (p *Param) allocScale(mem core.Memory, n int) (err error) {
	if p.scale, err = core.NewTensorIn(mem, core.Float32, n); err == nil {
		p.Scale = p.scale.Float32s()
	}
	return err
}

// Bytes returns how much memory the parameter takes.
func (p *Param) Bytes() int64 {
	return int64(len(p.Tensor.Data) + len(p.scale.Data) + len(p.absmax.Data))
}

// free gives it back.
func (p *Param) free(mem core.Memory) { freeAll(mem, p.Tensor, p.scale, p.absmax) }

// freeAll gives the memory of those tensors back that have some.
func freeAll(mem core.Memory, all ...core.Tensor) {
	for _, t := range all {
		if t.Data != nil {
			mem.Free(t.Data)
		}
	}
}

// bytesOf returns the size of a tensor, whose shape may be nonsense from a file.
func bytesOf(dtype core.DType, shape core.Shape) (int, error) {
	n := dtype.Size()
	for _, d := range shape {
		if d < 1 || n > math.MaxInt/d {
			return 0, fmt.Errorf("no memory can hold it")
		}
		n *= d
	}
	return dtype.Bytes(n / dtype.Size()), nil
}

// Body is what every model has: its parameters and its sites. It implements core.Model.
type Body struct {
	mem     core.Memory
	params  []*Param
	buffers []*Param
	sites   []core.Site
	cached  []*site // of Paged, two for each attention
	targets []Target
	layers  []*Linear
	gates   []*Linear
	use     *use
}

var _ core.Model = (*Body)(nil)

// Body returns what was built.
func (b *Builder) Body() Body {
	return Body{b.mem, b.params, b.buffers, b.sites, b.cached, b.targets, b.layers, b.gates, b.use}
}

// Params returns the parameters, in the order in which they were built.
func (b *Body) Params() []*Param { return b.params }

// Trainable returns the parameters that get a gradient, in the same order.
func (b *Body) Trainable() []*Param {
	return slices.DeleteFunc(slices.Clone(b.params), func(p *Param) bool { return p.Frozen })
}

// Sites implements core.Model: those that training has. See ForInference.
func (b *Body) Sites() []core.Site { return trainingSites(b.sites) }

// Memory returns where the parameters are.
func (b *Body) Memory() core.Memory { return b.mem }

// Free gives the parameters' memory back.
func (b *Body) Free() {
	params := slices.Concat(b.params, b.buffers)
	for _, v := range b.use.variants {
		params = append(params, v.params...)
		v.params = nil
	}
	for _, p := range params {
		p.free(b.mem)
	}
	for _, l := range b.layers {
		l.int8.free(b.mem)
	}
	b.params, b.buffers, b.layers, b.gates = nil, nil, nil, nil
}

// site is a place where a kernel can go. It implements core.Hook.
type site struct {
	path     string
	op       core.Op
	facts    core.Facts
	perToken int // rows of the op for each token; 0 means 1
	kernel   core.Kernel
	use      *use

	inference bool          // training does not have the site
	plain     func() string // why no kernel can take it once its weights are there, "" if one may; nil if one may always
}

var _ core.Hook = (*site)(nil)

func (b *Builder) site(path string, op core.Op, facts core.Facts) *site {
	facts.DType = core.Float32
	s := &site{path: path, op: op, facts: facts, use: b.use}
	b.sites = append(b.sites, core.Site{Path: path, Op: op, Facts: facts, Hook: s})
	return s
}

func (s *site) rowsPerToken() int { return max(s.perToken, 1) }

// Kernel implements core.Hook.
func (s *site) Kernel() core.Kernel { return s.kernel }

// Swap implements core.Hook.
func (s *site) Swap(k core.Kernel) error {
	if s.use.graphs > 0 {
		return fmt.Errorf("%w: close its programs first, or patch before compiling", core.ErrCompiled)
	}
	s.kernel = k
	s.use.swaps++
	return nil
}

// fused records the kernel's operation.
func (s *site) fused(c *Context, tokens int, in ...*autograd.Value) []*autograd.Value {
	return s.fusedAgain(c, tokens, nil, in...)
}

// fusedAgain is fused with a cheaper way to compute outputs again, if not nil.
func (s *site) fusedAgain(c *Context, tokens int, again *autograd.Again, in ...*autograd.Value) []*autograd.Value {
	if c.swaps < 0 { // a model of modules, whose forward is not Decoder's
		c.swaps = s.use.swaps
	}
	op, err := autograd.Kernel(c.watched(s.kernel), s.op, s.facts, s.path, tokens, c.positions)
	if err != nil {
		c.fail(fmt.Errorf("nn: %s: %w", s.path, err))
		return in
	}
	op.Again = again
	return c.G.ApplyAll(op, in...)
}
