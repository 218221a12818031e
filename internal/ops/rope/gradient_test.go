package rope

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/opdef/opdeftest"
)

// TestRoPEGradient uses tables that are no rotation, so that a gradient which relies on
// cos^2+sin^2 = 1 shows.
func TestRoPEGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, pairing := range []core.Pairing{core.Half, core.Interleaved} {
		f := core.Facts{Pairing: pairing, RotaryDim: 4, HeadDim: 7}
		x, dy := opdeftest.Normal(rng, 3*2*7), opdeftest.Normal(rng, 3*2*7)
		cos, sin, negated := opdeftest.Normal(rng, 5*2), opdeftest.Normal(rng, 5*2), make([]float64, 5*2)
		for i, s := range sin {
			negated[i] = -s
		}
		positions := []int32{4, 0, 4}
		loss := func() float64 {
			y := slices.Clone(x)
			rotate(f, 2, y, cos, sin, positions)
			return opdef.Dot(y, dy)
		}
		dx := slices.Clone(dy)
		rotate(f, 2, dx, cos, negated, positions)
		opdeftest.CheckGradient(t, string(pairing), dx, x, loss)
	}
}
