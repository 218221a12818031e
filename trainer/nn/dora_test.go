package nn

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// doraLayer is a linear layer with a decomposed adapter.
func doraLayer(t *testing.T, out, in, rank int, scale float64, bias bool) (*Linear, *Body) {
	t.Helper()
	b := NewBuilder(autograd.Heap{})
	b.Freeze(func(*Param) core.DType { return core.Float32 })
	l := NewLinear(b, "l", in, out, bias)
	body := b.Body()
	if _, _, err := body.Adapt(body.Targets()[0], Adaptation{Rank: rank, Scale: scale}); err != nil {
		t.Fatal(err)
	}
	if _, err := body.Decompose(body.Targets()[0]); err != nil {
		t.Fatal(err)
	}
	return l, &body
}

func TestDoRAEqualsPublishedCode(t *testing.T) {
	recorded(t, "lora_variants", func(t *testing.T, r recording) {
		var p struct {
			In, Out, R int
			Dora, Bias bool
			Scaling    float64
		}
		if r.read(&p); !p.Dora {
			return
		}
		l, body := doraLayer(t, p.Out, p.In, p.R, p.Scaling, p.Bias)
		set := func(to *Param, name string) { copy(to.Tensor.Float32s(), r.tensor("in."+name).Float32s()) }
		set(l.Weight, "W")
		set(l.adapter.a, "A")
		set(l.adapter.b, "B")
		if p.Bias {
			set(l.Bias, "bias")
		}
		norms := make([]float32, p.Out)
		body.Targets()[0].RowNorms(norms)
		r.near("weight_norm", norms)
		set(l.adapter.m, "m")
		tokens := r.tensor("in.x").Elems() / p.In
		c := newContext(t, 1, tokens)
		x := r.in(c, "x", tokens, p.In)
		wrt := []*autograd.Value{x, c.Leaf(l.adapter.a), c.Leaf(l.adapter.b), c.Leaf(l.adapter.m)}
		values, grads := run(t, c, []*autograd.Value{l.Forward(c, x)}, [][]float32{r.tensor("in.d_y").Float32s()}, wrt...)
		r.near("y", values[0])
		for i, name := range []string{"x", "A", "B", "m"} {
			r.near("grad."+name, grads[i])
		}
	})
}

// TestARowOfZerosHasNoDirection: nothing is divided by its norm.
func TestARowOfZerosHasNoDirection(t *testing.T) {
	l, body := doraLayer(t, 3, 4, 2, 1, false)
	copy(l.Weight.Tensor.Float32s(), []float32{1, 2, 3, 4, 0, 0, 0, 0, 1, 0, 0, 0})
	body.Targets()[0].RowNorms(l.adapter.m.Tensor.Float32s())
	c := newContext(t, 1, 1)
	x := param(c, "x", []float32{1, 1, 1, 1}, 1, 4)
	values, grads := run(t, c, []*autograd.Value{l.Forward(c, x)}, [][]float32{{1, 1, 1}}, x, c.Leaf(l.adapter.m))
	if y := values[0]; y[1] != 0 || y[0] != 10 || y[2] != 1 {
		t.Errorf("y is %v", y)
	}
	if dm := grads[1]; dm[1] != 0 || dm[0] == 0 {
		t.Errorf("dm is %v", dm)
	}
}

func TestExpertsHaveNoMagnitudes(t *testing.T) {
	b := NewBuilder(autograd.Heap{})
	NewMoE(b, "m", "m", MoEConfig{Hidden: 4, Intermediate: 4, Router: RouterConfig{Experts: 2, TopK: 1}})
	body := b.Body()
	for _, target := range body.Targets() {
		if _, _, err := body.Adapt(target, Adaptation{Rank: 1, Scale: 1}); err != nil {
			t.Fatal(err)
		}
		experts := len(target.Modules) > 1
		if _, err := body.Decompose(target); (err != nil) != experts {
			t.Errorf("%s: %v", target.Name, err)
		}
	}
}
