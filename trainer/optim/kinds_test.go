package optim

import (
	"maps"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// state returns what an optimizer remembers, by name.
func state(o *Optimizer) map[string]core.Tensor {
	all := map[string]core.Tensor{}
	_ = o.Each(func(name string, t core.Tensor) error { all[name] = t; return nil }) // use gives no error
	return all
}

// each runs a test with every optimizer, of a small and then a large matrix, a vector, one of which an element is left
// beyond blocks, and an embedding.
func each(t *testing.T, run func(t *testing.T, c Config, params func() []Param)) {
	for _, name := range Kinds() {
		t.Run(name, func(t *testing.T) {
			c := Config{Kind: Kind(name), Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, WeightDecay: 0.1}
			c.Momentum = c.Kind.DefaultMomentum()
			run(t, c, func() []Param {
				wide, tall, vector, embed := randomParam(1, 72*130), randomParam(2, 70*40), randomParam(3, 50), randomParam(4,
					30*7)
				odd := randomParam(5, smallest+1)
				wide.Shape, tall.Shape, embed.Shape = core.Shape{72, 130}, core.Shape{70, 40}, core.Shape{30, 7}
				embed.Name = "embed_tokens.weight"
				return []Param{tall, wide, vector, odd, embed}
			})
		})
	}
}

func values(params []Param) (all []float32) {
	for _, p := range params {
		all = append(all, p.Value...)
	}
	return all
}

// TestAStateContinuesExactly copies what Each gives into another optimizer.
func TestAStateContinuesExactly(t *testing.T) {
	each(t, func(t *testing.T, c Config, params func() []Param) {
		steps := func(o *Optimizer, n int) {
			for range n {
				o.Step(1e-2, 0.5)
			}
		}
		whole := params()
		steps(newAdamW(t, c, whole...), 5)

		stopped, continued := params(), params()
		first, second := newAdamW(t, c, stopped...), newAdamW(t, c, continued...)
		steps(first, 3)
		for i := range continued {
			copy(continued[i].Value, stopped[i].Value)
		}
		was := state(first)
		for name, tensor := range state(second) {
			copy(tensor.Data, was[name].Data)
		}
		second.SetT(first.T())
		steps(second, 2)
		if !slices.Equal(values(whole), values(continued)) {
			t.Error("a run continued from its state differs from one that never stopped")
		}
	})
}

func TestBytesAreThoseOfTheState(t *testing.T) {
	want := map[Kind]int{
		AdamW:     8 * (72*130 + 70*40 + 50 + 4097 + 30*7),
		AdamW8:    2*(72*130+4097) + 8*(37+17) + 8*(70*40+50+30*7),
		Adafactor: 4 * (72 + 130 + 70 + 40 + 50 + 4097 + 30 + 7),
		Lion:      4 * (72*130 + 70*40 + 50 + 4097 + 30*7),
		SGD:       4 * (72*130 + 70*40 + 50 + 4097 + 30*7),
		Muon:      4*(72*130+70*40) + 8*(50+4097+30*7) + 4*(2*72*130+2*72*72),
	}
	each(t, func(t *testing.T, c Config, params func() []Param) {
		got := c.Bytes(params())
		if got != int64(want[c.Kind]) {
			t.Errorf("%d bytes, want %d", got, want[c.Kind])
		}
		n := 0
		for _, s := range state(newAdamW(t, c, params()...)) {
			n += len(s.Data)
		}
		if c.Kind != Muon && n != want[c.Kind] {
			t.Errorf("the state is %d bytes, want %d", n, want[c.Kind])
		}
	})
}

func TestEveryOptimizerIsTheSameForAnyNumberOfThreads(t *testing.T) {
	defer simd.SetThreads(0)
	each(t, func(t *testing.T, c Config, params func() []Param) {
		var first []float32
		for _, threads := range []int{1, 2, 5} {
			simd.SetThreads(threads)
			p := params()
			o := newAdamW(t, c, p...)
			o.Step(1e-3, 0.7)
			o.Step(1e-3, 1)
			if got := values(p); first == nil {
				first = got
			} else if !slices.Equal(first, got) {
				t.Errorf("%d threads give other bits than 1", threads)
			}
		}
	})
}

func TestEveryOptimizerScalesTheGradient(t *testing.T) {
	each(t, func(t *testing.T, c Config, params func() []Param) {
		a, b := params(), params()
		scaled, plain := newAdamW(t, c, a...), newAdamW(t, c, b...)
		for _, scale := range []float64{0.25, 4, 1} { // powers of two: exact
			for i, p := range a {
				slices.Reverse(p.Grad)
				for k, g := range p.Grad {
					b[i].Grad[k] = float32(scale) * g
				}
			}
			scaled.Step(1e-2, scale)
			plain.Step(1e-2, 1)
		}
		for i := range a {
			// Adafactor computes with the scale in another place.
			if d := distance(a[i].Value, b[i].Value); !(d <= 1e-6) || d > 0 && c.Kind != Adafactor {
				t.Errorf("%s: a gradient scaled by the step gives values that are off by %g", a[i].Name, d)
			}
		}
	})
}

// TestAdafactorSumsManyRows: more than are added up in float32, and than are in memory, at once.
func TestAdafactorSumsManyRows(t *testing.T) {
	const rows, cols = 17*factorRows + 5, 3
	p := randomParam(1, rows*cols)
	wantRows, wantCols := make([]float64, rows), make([]float64, cols)
	for i, g := range p.Grad {
		wantRows[i/cols] += float64(g) * float64(g)
		wantCols[i%cols] += float64(g) * float64(g)
	}
	ofRows, ofCols := (&factored{p: &p}).sums(rows, cols)
	for what, of := range map[string][2][]float64{"rows": {ofRows, wantRows}, "columns": {ofCols, wantCols}} {
		if rel := relative(narrow(of[0]), of[1]); !(rel <= factorRows*0x1p-24) {
			t.Errorf("%s: relative error %.2g", what, rel)
		}
	}
}

func TestMuonLeavesWhatIsNoHiddenMatrixToAdamW(t *testing.T) {
	for name, shape := range map[string]core.Shape{"layers.0.mlp.experts.down_proj_bias": {4, 8}, "norm.weight": {8},
		"model.embed_tokens.weight": {8, 4}, "lm_head.weight": {8, 4}, "layers.0.mlp.experts.down_proj": {2, 8, 4},
		"layers.0.mlp.down_proj.weight": {8, 4}} {
		p := Param{Name: name, Shape: shape}
		if got, want := orthogonal(&p), name == "layers.0.mlp.down_proj.weight"; got != want {
			t.Errorf("%s of %v is made orthogonal: %v", name, shape, got)
		}
	}
}

// torch.optim.SGD without momentum keeps nothing.
func TestSGDWithoutMomentum(t *testing.T) {
	p := Param{Name: "w", Value: []float32{2}, Grad: []float32{0.5}, Decay: true}
	o := newAdamW(t, Config{Kind: SGD, Beta1: 0.9, Beta2: 0.9, Eps: 1e-8, WeightDecay: 0.25}, p)
	o.Step(0.5, 2)
	if p.Value[0] != 1.25 || len(state(o)) != 0 {
		t.Errorf("got %v and a state of %d, want 2-0.5*(2*0.5+0.25*2) = 1.25 and none", p.Value[0], len(state(o)))
	}
}

func distance(got, want []float32) float64 {
	wide := make([]float64, len(want))
	for i, w := range want {
		wide[i] = float64(w)
	}
	return relative(got, wide)
}

func TestKindsHaveTransformersNames(t *testing.T) {
	for name, want := range map[string]Kind{"adamw_torch": AdamW, "paged_adamw_8bit": AdamW8, "adamw_bnb_8bit": AdamW8,
		"lion_32bit": Lion, "muon": Muon, "galore_adamw": ""} {
		if got, err := ParseKind(name); got != want || (err != nil) != (want == "") {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	if got := slices.Sorted(maps.Values(aliases)); len(got) != len(aliases) {
		t.Errorf("%d aliases", len(got))
	}
}

// TestPiecesAtOnceAreThoseOneByOne has ranges of threads end within pieces.
func TestPiecesAtOnceAreThoseOneByOne(t *testing.T) {
	defer simd.SetThreads(0)
	each(t, func(t *testing.T, c Config, params func() []Param) {
		big := func() []Param {
			return append(params(), randomParam(9, 3*grain+77), randomParam(10, grain+5))
		}
		simd.SetThreads(1)
		one, all := big(), big()
		first, second := newAdamW(t, c, one...), newAdamW(t, c, all...)
		first.Step(1e-2, 0.5)
		simd.SetThreads(3)
		var pieces []Piece
		for i, p := range all {
			pieces = append(pieces, Piece{Param: i, Grad: p.Grad})
		}
		second.Begin()
		second.Update(1e-2, 0.5, pieces...)
		if !slices.Equal(values(one), values(all)) {
			t.Error("pieces that are updated at once differ from those that are one after the other")
		}
	})
}
