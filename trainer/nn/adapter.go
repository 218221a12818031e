package nn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// Target is where a low-rank adapter can go: a linear layer, or the same matrix of every
// expert of a sparse block, each of which gets an adapter of its own.
type Target struct {
	Name    string   // the path of the layer, or what the experts' paths have in common
	Modules []string // the path of the layer, or of the matrix of each expert
	In, Out int

	at     **adapter
	site   *site // of the experts, whose kernels know of no adapter; nil for none
	linear *site // of the layer, whose kernels may; nil for none
	layer  *Linear
}

// expertTargets adds the matrices of the experts.
func (b *Builder) expertTargets(m *MoE, path string, names ExpertNames) {
	d, i := m.site.facts.Dim, m.site.facts.Intermediate
	for k, name := range []string{names.Gate, names.Up, names.Down} {
		t := Target{Name: path + ".experts." + name, In: d, Out: i, at: &m.adapters[k], site: m.site}
		if name == names.Down {
			t.In, t.Out = i, d
		}
		for e := range m.site.facts.Experts {
			t.Modules = append(t.Modules, fmt.Sprintf("%s.experts.%d.%s", path, e, name))
		}
		b.targets = append(b.targets, t)
	}
}

// stayPlain keeps kernels off a site.
func (b *Builder) stayPlain(s *site, reason string) { siteOf(b.sites, s).Plain = reason }

// siteOf finds what core knows of a site.
func siteOf(sites []core.Site, s *site) *core.Site {
	return &sites[slices.IndexFunc(sites, func(at core.Site) bool { return at.Hook == core.Hook(s) })]
}

// Targets returns where adapters can go, in the order in which the model was built.
func (b *Body) Targets() []Target { return b.targets }

// Adaptation describes the adapter of a target.
type Adaptation struct {
	Rank    int
	Scale   float64 // of what the adapter adds
	Dropout float64 // share of the elements of x that the adapter does not see while training, in [0, 1)
}

// adapter adds scale * dropout(x) A^T B^T to the output of a linear layer: A [r, in],
// B [out, r], or one of each for every expert, [E, r, in] and [E, out, r]. (LoRA: Hu et
// al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021.)
type adapter struct {
	Adaptation
	a, b     *Param
	m        *Param     // magnitudes; nil unless it is decomposed
	products core.DType // see core.Facts.Products; for experts none
}

// rounding is the adapter with such products; nil for none.
func (l *adapter) rounding(products core.DType) *adapter {
	if l == nil {
		return nil
	}
	rounding := *l
	rounding.products = products
	return &rounding
}

// Adapt puts an adapter on a target. Its A and B, which are trainable parameters named
// .lora_A.weight and .lora_B.weight below the path of their module, are zero. A site whose
// kernels cannot take it stays plain from then on.
func (b *Body) Adapt(t Target, with Adaptation) (A, B *Param, err error) {
	if A, B, err = b.newAdapter(t, with.Rank); err != nil {
		return nil, nil, err
	}
	b.params = append(b.params, A, B)
	*t.at = &adapter{Adaptation: with, a: A, b: B}
	if t.site == nil && t.linear != nil && with.Dropout == 0 { // with it, the adapter is recorded beside the layer
		t.linear.facts.Rank, t.linear.facts.Scale = with.Rank, with.Scale
		siteOf(b.sites, t.linear).Facts = t.linear.facts
	}
	b.keepPlain(t)
	return A, B, nil
}

// newAdapter makes an A and a B of zeros for a target.
func (b *Body) newAdapter(t Target, rank int) (A, B *Param, err error) {
	if b.use.graphs > 0 || t.site.patched() || t.linear.patched() ||
		slices.ContainsFunc(b.around(t.linear), (*site).patched) {
		return nil, nil, errors.New("nn: adapters come before kernels and programs")
	}
	A, B = t.param(suffixA, rank, t.In), t.param(suffixB, t.Out, rank)
	if err := A.alloc(b.mem); err != nil {
		return nil, nil, err
	}
	if err := B.alloc(b.mem); err != nil {
		b.mem.Free(A.Tensor.Data)
		return nil, nil, err
	}
	clear(A.Tensor.Data)
	clear(B.Tensor.Data)
	return A, B, nil
}

// keepPlain keeps kernels off a target that has an adapter now, and that they cannot take.
func (b *Body) keepPlain(t Target) {
	if t.site != nil {
		siteOf(b.sites, t.site).Plain = "its experts carry adapters"
	}
	for _, larger := range b.around(t.linear) {
		siteOf(b.sites, larger).Plain = "its layers carry adapters"
	}
	b.use.swaps++
}

// Entries returns the tensors that an adapter of this rank has, those of A before those of B.
func (t Target) Entries(rank int) []Entry {
	return slices.Concat(t.param(suffixA, rank, t.In).Entries, t.param(suffixB, t.Out, rank).Entries)
}

// What A and B are called, below the path of their module.
const (
	suffixA = ".lora_A.weight"
	suffixB = ".lora_B.weight"
)

// param makes a parameter of an adapter, without memory.
func (t Target) param(suffix string, rows, cols int) *Param {
	p := &Param{Name: t.Name + suffix, Tensor: core.Tensor{DType: core.Float32, Shape: core.Shape{rows, cols}}}
	if t.site != nil {
		p.Tensor.Shape = core.Shape{len(t.Modules), rows, cols}
	}
	for e, module := range t.Modules {
		p.Entries = append(p.Entries, Entry{module + suffix, e * rows * cols, core.Shape{rows, cols}})
	}
	return p
}

// add records y plus what the adapter makes of x: x [T, in], y [T, out]. offsets says which
// rows are whose, if there are experts. Without an adapter it is y.
func (l *adapter) add(c *Context, x, y, offsets *autograd.Value) *autograd.Value {
	if l == nil {
		return y
	}
	down := []*autograd.Value{x, c.Leaf(l.a), c.noise}
	up := []*autograd.Value{y, nil, c.Leaf(l.b)}
	if offsets != nil {
		down, up = append(down, offsets), append(up, offsets)
	}
	few := c.T() <= simd.FewRows
	up[1] = c.G.Apply(l.downOp(x.Shape()[0], few, c.Training), down...)
	defer c.aside()() // the backward pass needs what A has made, which is small and a product
	return c.G.Apply(l.upOp(x.Shape()[0], few), up...)
}

// groups makes one product for the rows of each expert, or one for all rows.
func groups(rounded core.DType, t int, offsets []core.Tensor, product func(e, from, rows int) simd.Product) {
	if len(offsets) == 0 {
		matmul(rounded, product(0, 0, t))
		return
	}
	one := func(e, _, from, rows int) simd.Product { return product(e, from, rows) }
	groupsOf(rounded, offsets[0], 0, offsets[0].Elems()-1, 1, one)
}

// groupsOf computes the products of groups [from, to), of each as many as it has parts.
func groupsOf(rounded core.DType, offsets core.Tensor, from, to, parts int,
	product func(e, part, from, rows int) simd.Product) {
	var ps []simd.Product
	ends := offsets.Int32s()
	for e := from; e < to; e++ {
		for part := range parts {
			ps = append(ps, product(e, part, int(ends[e]), int(ends[e+1]-ends[e])))
		}
	}
	matmul(rounded, ps...)
}

func matrixAt(x []float32, row, cols int) simd.Matrix {
	return simd.Matrix{Data: x[row*cols:], Stride: cols}
}

// downOp is u = scale * dropout(x) A^T, of x, A and the noise. With few, no product has more rows than simd.FewRows.
func (l *adapter) downOp(t int, few, training bool) autograd.Op {
	r, in := l.sizes(l.a)
	drop := newDropout(l.a.Name, 0)
	inputs, scratch := []int{0, 1, 2}, []autograd.Spec{autograd.Float32(t, r)}
	if training && l.Dropout > 0 {
		drop = newDropout(l.a.Name, l.Dropout)
		scratch = append(scratch, autograd.Float32(t, in))
	}
	if len(l.a.Tensor.Shape) == 3 {
		inputs = append(inputs, 3)
	}
	scale, one := float32(l.Scale), products(1, t, r, in)
	return autograd.Op{Name: "lora_a", Outputs: []autograd.Spec{autograd.Float32(t, r)}, Work: one,
		Forward: func(_ context.Context, args, out []core.Tensor) error {
			a, u := args[1].Float32s(), out[0].Float32s()
			mask := drop.with(args[2].Int32s())
			groups(l.products, t, args[3:], func(e, from, m int) simd.Product {
				return simd.Product{M: m, N: r, K: in, A: mask.of(args[0].Float32s(), from, in), B: matrixAt(a, e*r, in),
					TransB: true, Dots: few, C: u[from*r:], StrideC: r}
			})
			scaleAll(u, u, scale)
			return nil
		},
		Backward: &autograd.Backward{Inputs: inputs, Wrt: []int{0, 1}, Accumulate: []int{0, 1}, Scratch: scratch,
			Each: []core.Work{one, one},
			Run: func(_ context.Context, g *autograd.Grads) error {
				du, a, offsets := g.Scratch[0].Float32s(), g.In[1].Float32s(), g.In[3:]
				mask := drop.with(g.In[2].Int32s())
				scaleAll(du, g.DOut[0].Float32s(), scale)
				if d := g.DIn[1]; !d.IsZero() {
					groups(l.products, t, offsets, func(e, from, m int) simd.Product {
						return simd.Product{M: r, N: in, K: m, A: matrixAt(du, from, r), TransA: true,
							B: mask.of(g.In[0].Float32s(), from, in),
							C: d.Float32s()[e*r*in:], StrideC: in, Accumulate: g.Add[1]}
					})
				}
				if d := g.DIn[0]; !d.IsZero() {
					dx, add := d.Float32s(), g.Add[0]
					if drop.cut > 0 {
						dx, add = g.Scratch[1].Float32s(), false
					}
					groups(l.products, t, offsets, func(e, from, m int) simd.Product {
						return simd.Product{M: m, N: in, K: r, A: matrixAt(du, from, r), B: matrixAt(a, e*r, in),
							C: dx[from*in:], StrideC: in, Accumulate: add}
					})
					if drop.cut > 0 {
						mask.gradient(d.Float32s(), dx, g.Add[0])
					}
				}
				return nil
			}},
	}
}

// upOp is y + u B^T, of y, u and B.
func (l *adapter) upOp(t int, few bool) autograd.Op {
	out, r := l.sizes(l.b)
	inputs := []int{1, 2}
	if len(l.b.Tensor.Shape) == 3 {
		inputs = append(inputs, 3)
	}
	one := products(1, t, out, r)
	return autograd.Op{Name: "lora_b", Outputs: []autograd.Spec{autograd.Float32(t, out)}, InPlace: true, Work: one,
		Forward: func(_ context.Context, args, sum []core.Tensor) error {
			y, before, u, b := sum[0].Float32s(), args[0].Float32s(), args[1].Float32s(), args[2].Float32s()
			if &y[0] != &before[0] {
				simd.Parallel(len(y), grain, func(lo, hi int) { copy(y[lo:hi], before[lo:hi]) })
			}
			groups(l.products, t, args[3:], func(e, from, m int) simd.Product {
				return simd.Product{M: m, N: out, K: r, A: matrixAt(u, from, r), B: matrixAt(b, e*out, r), TransB: true,
					Dots: few, C: y[from*out:], StrideC: out, Accumulate: true}
			})
			return nil
		},
		Backward: &autograd.Backward{Inputs: inputs, Through: []int{0}, Wrt: []int{1, 2}, Each: []core.Work{one, one},
			Run: func(_ context.Context, g *autograd.Grads) error {
				dy, b, offsets := g.DOut[0].Float32s(), g.In[2].Float32s(), g.In[3:]
				if d := g.DIn[1]; !d.IsZero() {
					groups(l.products, t, offsets, func(e, from, m int) simd.Product {
						return simd.Product{M: m, N: r, K: out, A: matrixAt(dy, from, out), B: matrixAt(b, e*out, r),
							C: d.Float32s()[from*r:], StrideC: r}
					})
				}
				if d := g.DIn[2]; !d.IsZero() {
					groups(l.products, t, offsets, func(e, from, m int) simd.Product {
						return simd.Product{M: out, N: r, K: m, A: matrixAt(dy, from, out), TransA: true,
							B: matrixAt(g.In[1].Float32s(), from, r),
							C: d.Float32s()[e*out*r:], StrideC: r}
					})
				}
				return nil
			}},
	}
}

// sizes returns the rows and columns of A or B.
func (l *adapter) sizes(p *Param) (rows, cols int) {
	s := p.Tensor.Shape
	return s[len(s)-2], s[len(s)-1]
}

func scaleAll(dst, x []float32, by float32) {
	simd.Parallel(len(x), grain, func(lo, hi int) { simd.Scale(dst[lo:hi], x[lo:hi], by) })
}
