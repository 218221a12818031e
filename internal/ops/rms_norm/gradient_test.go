package rmsnorm

import (
	"math/rand/v2"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/opdef/opdeftest"
)

func TestRMSNormGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, offset := range []int{0, 1} {
		for _, cast := range []core.CastOrder{core.CastBeforeWeight, core.CastAfterWeight} {
			f := core.Facts{DType: core.Float64, WeightDType: core.Float64, Dim: 7, Eps: 0.1, Offset: offset, Cast: cast}
			x, w, dy := opdeftest.Normal(rng, 3*7), opdeftest.Normal(rng, 7), opdeftest.Normal(rng, 3*7)
			loss := func() float64 { y, _ := Forward(f, x, w); return opdef.Dot(y, dy) }
			dx, dw := Gradient(f, dy, x, w)
			opdeftest.CheckGradient(t, "dx", dx, x, loss)
			opdeftest.CheckGradient(t, "dweight", dw, w, loss)
		}
	}
}
