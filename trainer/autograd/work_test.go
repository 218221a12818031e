package autograd

import (
	"testing"

	"github.com/seed98097648/tune/core"
)

func TestStatsAddUpTheWork(t *testing.T) {
	const n = 8
	g := New(Heap{})
	a := g.Param("a", core.NewTensor(core.Float32, n))
	counted := mul(n)
	counted.Work = core.Work{Products: 100}
	counted.Backward.Work = core.Work{Bytes: 7, Elementwise: 200}
	counted.Backward.Scratch = []Spec{Float32(1000)} // no work
	y := g.Apply(counted, a, g.Input("b", core.NewTensor(core.Float32, n)))
	z := g.Apply(mul(n), y, a)
	p, err := g.Compile(g.Apply(total(), z), a)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	want := map[string]core.Work{
		// Two forwards read two vectors and write one.
		"mul forward": {Bytes: 2 * 3 * 4 * n, Products: 100},
		// The second one backward reads dy, y and a, and writes both gradients.
		"mul backward":   {Bytes: 7 + 5*4*n, Elementwise: 200},
		"sum backward":   {Bytes: 3 * 4 * n, Elementwise: n},
		"total forward":  {Bytes: 4*n + 4},
		"total backward": {Bytes: 4*n + 4},
	}
	for range 2 {
		p.ResetStats()
		if _, err := p.Forward(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Backward(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Stats() {
			if key := s.Op + " " + s.Pass.String(); s.Work != want[key] {
				t.Errorf("%s: %+v, want %+v", key, s.Work, want[key])
			}
		}
	}
	if len(p.Stats()) != len(want) {
		t.Errorf("%d kinds of instructions, want %d", len(p.Stats()), len(want))
	}
}
