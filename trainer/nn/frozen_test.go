package nn

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// storages are the dtypes of frozen weights.
var storages = []core.DType{core.Float32, core.BFloat16, core.Float16, core.Int8, core.NF4}

// freeze makes the parameters that build adds frozen in a dtype, those of float32 the same
// numbers, and returns both. Their values are random.
func freeze(t *testing.T, dtype core.DType, build func(b *Builder)) (frozen, wide []*Param) {
	t.Helper()
	half, full := NewBuilder(autograd.Heap{}), NewBuilder(autograd.Heap{})
	half.Freeze(func(*Param) core.DType { return dtype })
	build(half)
	build(full)
	for i, p := range half.params {
		for _, e := range p.Entries {
			p.Set(e, core.FromFloat32(normal(newRand(uint64(i+e.Offset)), e.Shape.Elems()), e.Shape...))
		}
		cols := p.Tensor.Shape[len(p.Tensor.Shape)-1]
		to := full.params[i].Tensor.Float32s()
		for at := 0; at < len(to); at += cols {
			p.Load(to[at:at+cols], at)
		}
	}
	return half.params, full.params
}

// TestFrozenWeightsActAsTheSameNumbersInFloat32 compares values and the gradient of x, to
// the bit: weights are widened on their way into the product.
func TestFrozenWeightsActAsTheSameNumbersInFloat32(t *testing.T) {
	const tokens, in, out, experts = 11, 9, 6, 3
	offsets := func(c *Context) *autograd.Value {
		return c.G.Input("offsets", core.FromInt32([]int32{0, 5, 5, tokens}, experts+1))
	}
	forms := map[string]struct {
		build   func(b *Builder)
		forward func(c *Context, x *autograd.Value, p *Param) *autograd.Value
	}{
		"linear": {func(b *Builder) { b.Param("w", out, in) },
			func(c *Context, x *autograd.Value, p *Param) *autograd.Value {
				return (&Linear{Weight: p}).Forward(c, x)
			}},
		"experts": {func(b *Builder) { b.Param("w", experts, out, in) },
			func(c *Context, x *autograd.Value, p *Param) *autograd.Value {
				return groupedLinear(c, x, c.Leaf(p), p, offsets(c), 1)[0]
			}},
		"packed experts": {func(b *Builder) { b.Param("w", experts, out, in) },
			func(c *Context, x *autograd.Value, p *Param) *autograd.Value {
				both := groupedLinear(c, x, c.Leaf(p), p, offsets(c), 2)
				return mul(c.G, both[0], both[1])
			}},
	}
	for name, form := range forms {
		for _, dtype := range storages {
			t.Run(name+" "+dtype.String(), func(t *testing.T) {
				frozen, wide := freeze(t, dtype, form.build)
				pass := func(p *Param) (y, dx []float32) {
					c := newContext(t, 1, tokens)
					x := param(c, "x", normal(newRand(8), tokens*in), tokens, in)
					made := form.forward(c, x, p)
					values, grads := run(t, c, []*autograd.Value{made}, [][]float32{normal(newRand(9), made.Shape().Elems())}, x)
					return values[0], grads[0]
				}
				y, dx := pass(frozen[0])
				wantY, wantDx := pass(wide[0])
				equal(t, "y", y, wantY)
				equal(t, "dx", dx, wantDx)
			})
		}
	}
}

func TestAFrozenEmbeddingIsWidenedWhereItIsLookedUp(t *testing.T) {
	for _, dtype := range []core.DType{core.BFloat16, core.Float16} {
		frozen, wide := freeze(t, dtype, func(b *Builder) { NewEmbedding(b, "e", 7, 5, -1) })
		look := func(p *Param) []float32 {
			c := newContext(t, 1, 4)
			copy(c.batch.IDs, []int32{6, 0, 3, 3})
			return forward(t, c, (&Embedding{Weight: p, Padding: -1}).Forward(c))
		}
		equal(t, dtype.String(), look(frozen[0]), look(wide[0]))
	}
}

// TestInt8IsWithinHalfAStepOfEachRow has rows of very different sizes and one of zeros.
func TestInt8IsWithinHalfAStepOfEachRow(t *testing.T) {
	const cols = 40
	sizes := []float32{1, 1e-20, 0, 1e20}
	v := normal(newRand(3), len(sizes)*cols)
	for i := range v {
		v[i] *= sizes[i/cols]
	}
	b := NewBuilder(autograd.Heap{})
	b.Freeze(func(*Param) core.DType { return core.Int8 })
	p := b.Param("w", len(sizes), cols)
	p.Set(p.Entries[0], core.FromFloat32(v, len(sizes), cols))
	for r := range sizes {
		row, got := v[r*cols:(r+1)*cols], make([]float32, cols)
		p.Load(got, r*cols)
		high := float32(0)
		for _, x := range row {
			high = max(high, float32(math.Abs(float64(x))))
		}
		for i, x := range row {
			if d := math.Abs(float64(got[i]) - float64(x)); !(d <= 1.0001*float64(high)/127/2) {
				t.Errorf("row %d: %v became %v, the largest is %v", r, x, got[i], high)
			}
		}
		if !slices.Contains(p.Tensor.Int8s()[r*cols:(r+1)*cols], 127) &&
			!slices.Contains(p.Tensor.Int8s()[r*cols:(r+1)*cols], -127) && high > 0 {
			t.Errorf("row %d does not use all of the range", r)
		}
	}
}

func TestInt8DoesNotHideWhatIsNotFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		b := NewBuilder(autograd.Heap{})
		b.Freeze(func(*Param) core.DType { return core.Int8 })
		p := b.Param("w", 2, 3)
		p.Set(p.Entries[0], core.FromFloat32([]float32{1, 2, 3, 4, float32(bad), 5}, 2, 3))
		good, row := make([]float32, 3), make([]float32, 3)
		p.Load(good, 0)
		p.Load(row, 3)
		if finite := func(v float32) bool { return v-v == 0 }; slices.ContainsFunc(row, finite) || !finite(good[0]) {
			t.Errorf("%v: the rows became %v and %v", bad, good, row)
		}
	}
}

// TestAFrozenModelTrainsItsAdaptersAlone: nothing else gets a gradient, or memory for one.
func TestAFrozenModelTrainsItsAdaptersAlone(t *testing.T) {
	b := NewBuilder(autograd.Heap{})
	b.Freeze(func(*Param) core.DType { return core.Float32 })
	cfg := tiny()
	cfg.Vocab = 3000
	d, err := NewDecoder(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	A, B, err := d.Adapt(d.Targets()[0], Adaptation{Rank: 2, Scale: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Trainable(); !slices.Equal(got, []*Param{A, B}) {
		t.Errorf("%d parameters are trainable, want the two of the adapter", len(got))
	}
	c := newContext(t, 1, 3)
	p, err := d.Compile(c, d.Forward(c).Loss, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if weight := 4 * 3000 * 10; p.Bytes() > weight {
		t.Errorf("the program holds %d bytes, the embedding alone has %d", p.Bytes(), weight)
	}
}

// scarce has memory for so many blocks.
type scarce struct{ left, taken int }

func (m *scarce) Alloc(n int) ([]byte, error) {
	if m.left == 0 {
		return nil, errors.New("there is no memory")
	}
	m.left--
	m.taken++
	return autograd.Heap{}.Alloc(n)
}

func (m *scarce) Free([]byte) { m.taken-- }

// TestWhatFindsNoMemoryKeepsNone, at whichever of its tensors that is.
func TestWhatFindsNoMemoryKeepsNone(t *testing.T) {
	for _, dtype := range storages {
		noMemoryFor(t, dtype, "")
	}
	noMemoryFor(t, core.Int8, core.StaticScaling)
}

func noMemoryFor(t *testing.T, dtype core.DType, scaling core.Scaling) {
	t.Helper()
	for n, done := 0, false; !done; n++ {
		mem := &scarce{left: n}
		b := NewBuilder(mem)
		b.Freeze(func(p *Param) core.DType {
			if len(p.Tensor.Shape) < 2 {
				return core.Float32
			}
			return dtype
		})
		b.Scale(func(string) core.Scaling { return scaling })
		d, err := NewDecoder(b, tiny())
		if err == nil {
			model := mem.taken
			if scaling == "" { // what multiplies int8 is not trained
				if _, _, err = d.Adapt(d.Targets()[0], Adaptation{Rank: 2, Scale: 1}); err == nil {
					model += 2
					err = compileIn(mem, d)
				}
			}
			if mem.taken != model {
				t.Errorf("%s %s, %d blocks: the model has %d, and %d are taken", dtype, scaling, n, model, mem.taken)
			}
			d.Free()
		}
		if mem.taken != 0 {
			t.Errorf("%s %s, %d blocks: %d are taken in the end", dtype, scaling, n, mem.taken)
		}
		done = err == nil || t.Failed()
	}
}

// compileIn makes a graph of a model and gives it back.
func compileIn(mem core.Memory, d *Decoder) error {
	c, err := NewContext(mem, 1, 3, 8)
	if err != nil {
		return err
	}
	p, err := d.Compile(c, d.Forward(c).Loss, false)
	if err == nil {
		p.Close()
	}
	return err
}
