package optim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/simd"
)

// The golden data hold the parameters after every step and the moments after the last.
// A tensor may be off by a few times what torch's own float32 is off from its float64,
// or a few roundings where torch was luckier than one: the largest element sets the
// scale, and it alone can be exact.
func TestAdamWMatchesTorch(t *testing.T) {
	g := openGolden(t, "adamw")
	for name, variant := range g.meta.Variants {
		t.Run(name, func(t *testing.T) {
			const multiple = 4
			grads, shape := g.floats(t, name+".in.grads")
			p0, _ := g.floats(t, name+".in.p0")
			want, _ := g.floats(t, name+".f64.params")
			steps, n := shape[0], shape[1]
			p := Param{Name: "p", Value: narrow(p0), Grad: make([]float32, n), Decay: true}
			v := variant.Params
			opt := newAdamW(t, Config{v["beta1"], v["beta2"], v["eps"], v["weight_decay"]}, p)
			got := make([]float32, 0, steps*n)
			for s := range steps {
				copy(p.Grad, narrow(grads[s*n:][:n]))
				opt.Step(v["lr"], 1)
				got = append(got, p.Value...)
			}
			check := func(what string, got []float32, want []float64) {
				if rel, limit := relative(got, want), multiple*max(variant.Rel[what], 0x1p-24); !(rel <= limit) {
					t.Errorf("%s: relative error %.2g, want at most %.2g", what, rel, limit)
				}
			}
			check("params", got, want)
			m, mShape := g.floats(t, name+".f64.exp_avg")
			w, _ := g.floats(t, name+".f64.exp_avg_sq")
			if mShape.Elems() != n {
				t.Fatalf("exp_avg is %v, want the moments after the last step", mShape)
			}
			check("exp_avg", opt.State().M[0], m)
			check("exp_avg_sq", opt.State().V[0], w)
		})
	}
}

// LoRA+ (Hayou et al., 2024) is one learning rate for A and a multiple of it for B.
func TestARateOfItsOwnMatchesLoRAPlus(t *testing.T) {
	g := openGoldenFile(t, "lora_variants")
	const multiple = 4
	var params []Param
	for _, name := range []string{"A", "B"} {
		value, _ := g.floats(t, "loraplus.in."+name)
		grad, _ := g.floats(t, "loraplus.in.grad_"+name)
		params = append(params, Param{Name: name, Value: narrow(value), Grad: narrow(grad),
			Rate: map[string]float64{"B": 16}[name]})
	}
	newAdamW(t, DefaultConfig(), params...).Step(1e-3, 1)
	for _, p := range params {
		want, _ := g.floats(t, "loraplus.f64.adamw."+p.Name)
		torch, _ := g.floats(t, "loraplus.f32.adamw."+p.Name)
		if rel, limit := relative(p.Value, want), multiple*max(relative(narrow(torch), want), 0x1p-24); !(rel <= limit) {
			t.Errorf("%s: relative error %.2g, want at most %.2g", p.Name, rel, limit)
		}
	}
}

func TestStepScalesTheGradient(t *testing.T) {
	a, b := randomParam(1, 100), randomParam(1, 100)
	scaled, plain := newAdamW(t, DefaultConfig(), a), newAdamW(t, DefaultConfig(), b)
	for i := range b.Grad {
		b.Grad[i] *= 0.25 // a power of two: exact
	}
	for range 3 {
		scaled.Step(1e-2, 0.25)
		plain.Step(1e-2, 1)
	}
	if !slices.Equal(a.Value, b.Value) {
		t.Error("a gradient scaled by the step differs from one scaled before it")
	}
}

func TestStepDecaysOnlyMarkedParameters(t *testing.T) {
	with := Param{Name: "with", Value: []float32{2}, Grad: []float32{0}, Decay: true}
	without := Param{Name: "without", Value: []float32{2}, Grad: []float32{0}}
	config := DefaultConfig()
	config.WeightDecay = 0.5
	newAdamW(t, config, with, without).Step(0.5, 1)
	if with.Value[0] != 1.5 || without.Value[0] != 2 {
		t.Errorf("got %v with decay and %v without, want 1.5 and 2", with.Value[0], without.Value[0])
	}
}

func TestStepIsTheSameForAnyNumberOfThreads(t *testing.T) {
	defer simd.SetThreads(0)
	var first []float32
	for _, threads := range []int{1, 2, 3, 7} {
		simd.SetThreads(threads)
		p := randomParam(7, 5*grain+13)
		opt := newAdamW(t, DefaultConfig(), p)
		for range 3 {
			opt.Step(1e-3, 0.7)
		}
		if first == nil {
			first = p.Value
		} else if !slices.Equal(first, p.Value) {
			t.Errorf("%d threads give other bits than 1", threads)
		}
	}
}

func TestSetStateContinuesExactly(t *testing.T) {
	steps := func(opt *AdamW, n int) {
		for range n {
			opt.Step(1e-2, 1)
		}
	}
	whole := randomParam(3, 50)
	steps(newAdamW(t, DefaultConfig(), whole), 5)

	stopped := randomParam(3, 50)
	first := newAdamW(t, DefaultConfig(), stopped)
	steps(first, 3)
	continued := randomParam(3, 50)
	copy(continued.Value, stopped.Value)
	second := newAdamW(t, DefaultConfig(), continued)
	if err := second.SetState(first.State()); err != nil {
		t.Fatal(err)
	}
	steps(first, 1) // must not reach into the copy
	steps(second, 2)
	if !slices.Equal(whole.Value, continued.Value) {
		t.Error("a run continued from its state differs from one that never stopped")
	}
}

func TestSetStateRefusesOtherParameters(t *testing.T) {
	opt := newAdamW(t, DefaultConfig(), randomParam(1, 4))
	tests := map[string]State{
		"no moments":      {},
		"negative step":   {T: -1, M: [][]float32{make([]float32, 4)}, V: [][]float32{make([]float32, 4)}},
		"short moments":   {M: [][]float32{make([]float32, 3)}, V: [][]float32{make([]float32, 4)}},
		"one set missing": {M: [][]float32{make([]float32, 4)}},
	}
	for name, state := range tests {
		t.Run(name, func(t *testing.T) {
			if err := opt.SetState(state); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestNewAdamWRefuses(t *testing.T) {
	good := DefaultConfig()
	p := randomParam(1, 2)
	tests := []struct {
		name   string
		config Config
		params []Param
		want   string
	}{
		{"beta1 of one", Config{1, 0.9, 1e-8, 0}, []Param{p}, "beta1 is 1"},
		{"negative beta2", Config{0.9, -0.1, 1e-8, 0}, []Param{p}, "beta2 is -0.1"},
		{"zero eps", Config{0.9, 0.9, 0, 0}, []Param{p}, "eps is 0"},
		{"NaN decay", Config{0.9, 0.9, 1e-8, math.NaN()}, []Param{p}, "weight decay is NaN"},
		{"short gradient", good, []Param{{Name: "w", Value: make([]float32, 3), Grad: make([]float32, 2)}},
			"w has 3 elements"},
		{"same name twice", good, []Param{p, p}, "given twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewAdamW(tt.config, tt.params)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func newAdamW(t *testing.T, config Config, params ...Param) *AdamW {
	t.Helper()
	opt, err := NewAdamW(config, params)
	if err != nil {
		t.Fatal(err)
	}
	return opt
}

func randomParam(seed uint64, n int) Param {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := Param{Name: fmt.Sprintf("p%d", seed), Value: make([]float32, n), Grad: make([]float32, n), Decay: true}
	for i := range n {
		p.Value[i], p.Grad[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
	}
	return p
}

func TestMomentsLieWhereTheyAreAskedFor(t *testing.T) {
	full := errors.New("full")
	params := []Param{{Name: "a", Value: make([]float32, 3), Grad: []float32{1, 1, 1}},
		{Name: "b", Value: make([]float32, 2), Grad: []float32{1, 1}}}
	memory := make([]float32, 10)
	alloc := func(n int) ([]float32, error) {
		if n > len(memory) {
			return nil, full
		}
		x := memory[:n:n]
		memory = memory[n:]
		return x, nil
	}
	all := memory
	a, err := NewAdamWIn(DefaultConfig(), params, alloc)
	if err != nil {
		t.Fatal(err)
	}
	a.Step(0.1, 1)
	if slices.Contains(all, 0) {
		t.Errorf("after a step the memory holds %v, want only moments that have moved", all)
	}
	if _, err := NewAdamWIn(DefaultConfig(), params, alloc); !errors.Is(err, full) ||
		!strings.Contains(err.Error(), "moments of a") {
		t.Errorf("without memory: %v", err)
	}
}
