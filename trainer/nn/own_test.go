package nn_test

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/nn"
)

// TestAModelOfModulesIsPatchedAndRestored: one whose forward is its own, and not Decoder's,
// is recorded anew after each change; a graph from before a change is refused.
func TestAModelOfModulesIsPatchedAndRestored(t *testing.T) {
	b := nn.NewBuilder(autograd.Heap{})
	embed, norm, head := nn.NewEmbedding(b, "embed", 7, 4, -1), nn.NewRMSNorm(b, "norm", "norm", 4, 1e-5),
		nn.NewLinear(b, "head", 4, 7, false)
	body := b.Body()
	for _, p := range body.Params() {
		for i, v := 0, p.Tensor.Float32s(); i < len(v); i++ {
			v[i] = float32(i%5) - 1.5
		}
	}
	record := func() (*nn.Context, *autograd.Value) {
		c, err := nn.NewContext(autograd.Heap{}, 2, 3, 3)
		if err != nil {
			t.Fatal(err)
		}
		return c, nn.CrossEntropy(c, head.Forward(c, norm.Forward(c, embed.Forward(c))))
	}
	loss := func() float64 {
		c, l := record()
		p, err := body.Compile(c, l, false)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		p.Batch.Divisor[0] = 4
		v, err := p.Forward(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	hook := body.Sites()[0].Hook
	plain := loss()
	for _, k := range []core.Kernel{reference.Single(core.RMSNorm), nil} {
		if err := hook.Swap(k); err != nil {
			t.Fatal(err)
		}
		if now := loss(); now != plain {
			t.Errorf("loss %v with %v, %v plain", now, k, plain)
		}
	}
	if err := hook.Swap(reference.Single(core.RMSNorm)); err != nil {
		t.Fatal(err)
	}
	c, l := record()
	if err := hook.Swap(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := body.Compile(c, l, false); err == nil || !strings.Contains(err.Error(), "record it again") {
		t.Errorf("a graph with a kernel that is gone: %v", err)
	}
}
