package swiglu

import (
	"math/rand/v2"
	"testing"

	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/opdef/opdeftest"
)

func TestSwiGLUGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	gate, up, dy := opdeftest.Normal(rng, 20), opdeftest.Normal(rng, 20), opdeftest.Normal(rng, 20)
	gate[0], gate[1], gate[2] = 0, 40, -40
	loss := func() float64 { return opdef.Dot(opdef.SwiGLU(gate, up), dy) }
	dgate, dup := opdef.SwiGLUGradient(dy, gate, up)
	opdeftest.CheckGradient(t, "dgate", dgate, gate, loss)
	opdeftest.CheckGradient(t, "dup", dup, up, loss)
	if got, want := dgate[0], dy[0]*up[0]/2; got != want {
		t.Errorf("dgate at gate 0 is %v, want half of dy*up, %v", got, want)
	}
}
