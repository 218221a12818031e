package nn

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// adapted is an adapter with what it works on: rows of x and, for experts, whose they are.
type adapted struct {
	*adapter
	t, in, out int
	x, y       []float32
	offsets    []int32 // nil for a single linear layer
}

// newAdapted makes an adapter of random numbers for some rows, which may be those of three
// experts, one of them without rows.
func newAdapted(experts bool, dropout float64) *adapted {
	const t, in, out, r = 9, 7, 5, 3
	rng := newRand(4)
	a := &adapted{adapter: &adapter{Adaptation: Adaptation{Rank: r, Scale: 1.5, Dropout: dropout}}, t: t, in: in,
		out: out,
		x:   normal(rng, t*in), y: normal(rng, t*out)}
	n, shapes := 1, []core.Shape{{r, in}, {out, r}}
	if experts {
		n, shapes, a.offsets = 3, []core.Shape{{3, r, in}, {3, out, r}}, []int32{0, 4, 4, t}
	}
	a.a = &Param{Name: "a", Tensor: core.FromFloat32(normal(rng, n*r*in), shapes[0]...)}
	a.b = &Param{Name: "b", Tensor: core.FromFloat32(normal(rng, n*out*r), shapes[1]...)}
	return a
}

// expert returns whose matrices row i of x meets.
func (a *adapted) expert(i int) int {
	for e := range len(a.offsets) - 1 {
		if i < int(a.offsets[e+1]) {
			return e
		}
	}
	return 0
}

// formula computes y + s x' A^T B^T, where x' is x times the factors, and the gradients of
// x, A and B, in float64.
func (a *adapted) formula(dy []float32, factor func(i int) float64) (y, dx, dA, dB []float64) {
	r, in, out := a.Rank, a.in, a.out
	y, dx = make([]float64, a.t*out), make([]float64, a.t*in)
	dA, dB = make([]float64, a.a.Tensor.Elems()), make([]float64, a.b.Tensor.Elems())
	A, B := a.a.Tensor.Float32s(), a.b.Tensor.Float32s()
	for i := range a.t {
		e := a.expert(i)
		for o := range out {
			y[i*out+o] += float64(a.y[i*out+o])
			for k := range r {
				at, g := (e*out+o)*r+k, a.Scale*float64(dy[i*out+o])
				for j := range in {
					x, f := float64(a.x[i*in+j]), factor(i*in+j)
					row := (e*r+k)*in + j
					y[i*out+o] += a.Scale * x * f * float64(A[row]) * float64(B[at])
					dx[i*in+j] += g * f * float64(A[row]) * float64(B[at])
					dA[row] += g * float64(B[at]) * x * f
					dB[at] += g * float64(A[row]) * x * f
				}
			}
		}
	}
	return y, dx, dA, dB
}

// TestAdaptersFollowTheFormula allows a few roundings of float32.
func TestAdaptersFollowTheFormula(t *testing.T) {
	for _, experts := range []bool{false, true} {
		for _, dropout := range []float64{0, 0.4} {
			for _, training := range []bool{false, true} {
				t.Run(fmt.Sprintf("experts %v, dropout %g, training %v", experts, dropout, training), func(t *testing.T) {
					a := newAdapted(experts, dropout)
					c := newContext(t, 1, a.t)
					c.Training = training
					c.batch.Draw(11)
					var offsets *autograd.Value
					if experts {
						offsets = c.G.Input("offsets", core.FromInt32(a.offsets, len(a.offsets)))
					}
					x, y := param(c, "x", a.x, a.t, a.in), param(c, "y", a.y, a.t, a.out)
					dy := normal(newRand(6), a.t*a.out)
					values, grads := run(t, c, []*autograd.Value{a.add(c, x, y, offsets)}, [][]float32{dy}, x, y, c.Leaf(a.a),
						c.Leaf(a.b))
					mask := newDropout("a", dropout).with(c.batch.Noise)
					want, dx, dA, dB := a.formula(dy, func(i int) float64 {
						if training {
							return float64(mask.factor(i))
						}
						return 1
					})
					near(t, "y", values[0], want, 0x1p-20)
					near(t, "dx", grads[0], dx, 0x1p-20)
					equal(t, "dy", grads[1], dy)
					near(t, "dA", grads[2], dA, 0x1p-20)
					near(t, "dB", grads[3], dB, 0x1p-20)
				})
			}
		}
	}
}

// TestAdaptersAddToAGradientThatIsThere has an x that something else reads too.
func TestAdaptersAddToAGradientThatIsThere(t *testing.T) {
	for _, dropout := range []float64{0, 0.4} {
		gradient := func(adapters int) []float32 {
			a := newAdapted(false, dropout)
			c := newContext(t, 1, a.t)
			c.Training = true
			x, y := param(c, "x", a.x, a.t, a.in), param(c, "y", a.y, a.t, a.out)
			for range adapters {
				y = a.add(c, x, y, nil)
			}
			_, grads := run(t, c, []*autograd.Value{y}, [][]float32{normal(newRand(6), a.t*a.out)}, x)
			return grads[0]
		}
		want := gradient(1)
		for i := range want {
			want[i] *= 3
		}
		near(t, "gradient", gradient(3), want, 0x1p-22)
	}
}

func TestDropoutTakesItsShareAndKeepsTheMean(t *testing.T) {
	const n = 100_000
	for _, share := range []float64{0.05, 0.5, 0.9} {
		m := newDropout("layer", share).with([]int32{1, 2})
		taken, sum := 0, 0.0
		for i := range n {
			f := float64(m.factor(i))
			if sum += f; f == 0 {
				taken++
			}
		}
		// Six standard deviations.
		limit := 6 * math.Sqrt(share*(1-share)/n)
		if got := float64(taken) / n; !(math.Abs(got-share) <= limit) {
			t.Errorf("took %g away, want %g", got, share)
		}
		if mean := sum / n; !(math.Abs(mean-1) <= limit/(1-share)) {
			t.Errorf("the mean of the factors is %g", mean)
		}
	}
}

// TestDropoutDependsOnNoiseNameAndPlaceAlone: each element of x is dropped or not whatever
// part of its row is loaded, and other noise, another step or another name drops others.
func TestDropoutDependsOnNoiseNameAndPlaceAlone(t *testing.T) {
	const rows, cols = 8, 30
	factors := func(name string, words ...uint64) []float32 {
		b := Batch{Noise: make([]int32, 2)}
		b.Draw(words...)
		m := newDropout(name, 0.5).with(b.Noise)
		ones := slices.Repeat([]float32{1}, rows*cols)
		out := make([]float32, rows*cols)
		x := m.of(ones, 3, cols)
		for r := range rows - 3 {
			for _, part := range [][2]int{{0, 7}, {7, 8}, {8, cols}} {
				x.Load(out[(r+3)*cols+part[0]:(r+3)*cols+part[1]], r*cols+part[0])
			}
		}
		for i := range 3 * cols {
			out[i] = m.factor(i)
		}
		for i, f := range out {
			if f != m.factor(i) {
				t.Fatalf("element %d is multiplied by %v, want %v", i, f, m.factor(i))
			}
		}
		return out
	}
	first := factors("a", 1, 2, 3)
	equal(t, "the same again", factors("a", 1, 2, 3), first)
	for what, other := range map[string][]float32{"another name": factors("b", 1, 2, 3),
		"another seed": factors("a", 2, 2, 3),
		"another step": factors("a", 1, 3, 3), "another batch": factors("a", 1, 2, 4),
		"words in another order": factors("a", 2, 1, 3)} {
		if slices.Equal(other, first) {
			t.Errorf("%s takes the same elements away", what)
		}
	}
}

// TestAdaptComesBeforeKernelsAndPrograms: nothing else could have noticed the adapter.
func TestAdaptComesBeforeKernelsAndPrograms(t *testing.T) {
	d := newDecoder(t, tiny(withExperts(2, true)), 1)
	experts := d.Targets()[len(d.Targets())-1]
	site := d.Sites()[slices.IndexFunc(d.Sites(), func(s core.Site) bool { return s.Hook == core.Hook(experts.site) })]
	with := Adaptation{Rank: 2, Scale: 1}
	if err := site.Hook.Swap(counting(core.MoEExperts)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Adapt(experts, with); err == nil {
		t.Error("experts with a kernel took an adapter")
	}
	if err := site.Hook.Swap(nil); err != nil {
		t.Fatal(err)
	}
	c := newContext(t, 1, 4)
	p, err := d.Compile(c, d.Forward(c).Loss, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Adapt(experts, with); err == nil {
		t.Error("a compiled model took an adapter")
	}
	p.Close()
	c = newContext(t, 1, 4)
	loss := d.Forward(c).Loss
	if _, _, err := d.Adapt(experts, with); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Compile(c, loss, false); err == nil || !strings.Contains(err.Error(), "record it again") {
		t.Errorf("a forward pass recorded before was compiled: %v", err)
	}
	if s := siteOf(d.sites, experts.site); s.Plain == "" {
		t.Error("experts with an adapter can get a kernel")
	}
	if _, _, err := d.Adapt(d.Targets()[0], Adaptation{Rank: math.MaxInt / 8}); err == nil {
		t.Error("an adapter larger than memory was made")
	}
}
