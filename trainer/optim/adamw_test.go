package optim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
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
			grads, shape := g.floats(t, name+".in.grads")
			p0, _ := g.floats(t, name+".in.p0")
			want, _ := g.floats(t, name+".f64.params")
			steps, n := shape[0], shape[1]
			p := Param{Name: "p", Value: narrow(p0), Grad: make([]float32, n), Decay: true}
			v := variant.numbers()
			opt := newAdamW(t, Config{Beta1: v["beta1"], Beta2: v["beta2"], Eps: v["eps"], WeightDecay: v["weight_decay"]}, p)
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
			check("exp_avg", state(opt)["exp_avg.p"].Float32s(), m)
			check("exp_avg_sq", state(opt)["exp_avg_sq.p"].Float32s(), w)
		})
	}
}

// LoRA+ (Hayou et al., 2024) is one learning rate for A and a multiple of it for B.
func TestARateOfItsOwnMatchesLoRAPlus(t *testing.T) {
	g := openGoldenFile(t, "lora_variants")
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

func TestNewRefuses(t *testing.T) {
	good := DefaultConfig()
	p := randomParam(1, 2)
	tests := []struct {
		name   string
		config Config
		params []Param
		want   string
	}{
		{"beta1 of one", Config{Beta1: 1, Beta2: 0.9, Eps: 1e-8}, []Param{p}, "beta1 is 1"},
		{"negative beta1", Config{Beta1: -0.1, Beta2: 0.9, Eps: 1e-8}, []Param{p}, "beta1 is -0.1"},
		{"negative beta2", Config{Beta1: 0.9, Beta2: -0.1, Eps: 1e-8}, []Param{p}, "beta2 is -0.1"},
		{"beta2 of one", Config{Beta1: 0.9, Beta2: 1, Eps: 1e-8}, []Param{p}, "beta2 is 1"},
		{"zero eps", Config{Beta1: 0.9, Beta2: 0.9}, []Param{p}, "eps is 0"},
		{"infinite eps", Config{Beta1: 0.9, Beta2: 0.9, Eps: math.Inf(1)}, []Param{p}, "eps is +Inf"},
		{"infinite decay", Config{Beta1: 0.9, Beta2: 0.9, Eps: 1e-8, WeightDecay: math.Inf(1)}, []Param{p},
			"weight decay is +Inf"},
		{"negative momentum", Config{Kind: SGD, Beta1: 0.9, Beta2: 0.9, Eps: 1e-8, Momentum: -0.1}, []Param{p},
			"momentum is -0.1"},
		{"NaN decay", Config{Beta1: 0.9, Beta2: 0.9, Eps: 1e-8, WeightDecay: math.NaN()}, []Param{p}, "weight decay is NaN"},
		{"short gradient", good, []Param{{Name: "w", Value: make([]float32, 3), Grad: make([]float32, 2)}},
			"w has 3 elements"},
		{"momentum of one", Config{Kind: SGD, Beta1: 0.9, Beta2: 0.9, Eps: 1e-8, Momentum: 1}, []Param{p}, "momentum is 1"},
		{"an unknown kind", Config{Kind: "adam_mini", Beta1: 0.9, Beta2: 0.9, Eps: 1e-8}, []Param{p},
			`unknown optimizer "adam_mini"`},
		{"another program's name", Config{Kind: "lion_32bit", Beta1: 0.9, Beta2: 0.9, Eps: 1e-8}, []Param{p},
			`unknown optimizer "lion_32bit"`},
		{"another shape", good, []Param{{Name: "w", Shape: []int{2, 2}, Value: make([]float32, 3)}}, "w has 3 elements"},
		{"same name twice", good, []Param{p, p}, "given twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.config, tt.params, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func newAdamW(t *testing.T, config Config, params ...Param) *Optimizer {
	t.Helper()
	opt, err := New(config, params, nil)
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
	memory := core.NewTensor(core.Float32, 10)
	left := memory.Data
	alloc := func(n int) ([]byte, error) {
		if n > len(left) {
			return nil, full
		}
		x := left[:n:n]
		left = left[n:]
		return x, nil
	}
	a, err := New(DefaultConfig(), params, alloc)
	if err != nil {
		t.Fatal(err)
	}
	a.Step(0.1, 1)
	if slices.Contains(memory.Float32s(), 0) {
		t.Errorf("after a step the memory holds %v, want only moments that have moved", memory.Float32s())
	}
	if _, err := New(DefaultConfig(), params, alloc); !errors.Is(err, full) ||
		!strings.Contains(err.Error(), "exp_avg of a") {
		t.Errorf("without memory: %v", err)
	}
}

// TestOtherGradientsAreTakenAllOrNone, and by the next step.
func TestOtherGradientsAreTakenAllOrNone(t *testing.T) {
	a := Param{Name: "a", Value: []float32{4}, Grad: []float32{1}}
	b := Param{Name: "b", Value: []float32{4}, Grad: []float32{1}}
	o := newAdamW(t, Config{Kind: SGD, Beta1: 0.9, Beta2: 0.9, Eps: 1e-8}, a, b)
	for _, wrong := range [][][]float32{{{2}}, {{2}, {3, 4}}} {
		if err := o.SetGradients(wrong); err == nil {
			t.Errorf("gradients %v are taken", wrong)
		}
	}
	if o.Step(1, 1); a.Value[0] != 3 || b.Value[0] != 3 {
		t.Errorf("gradients that were refused make %v and %v of 4", a.Value, b.Value)
	}
	if err := o.SetGradients([][]float32{{2}, {3}}); err != nil {
		t.Fatal(err)
	}
	if o.Step(1, 1); a.Value[0] != 1 || b.Value[0] != 0 {
		t.Errorf("other gradients make %v and %v of 3, want 1 and 0", a.Value, b.Value)
	}
}

// TestAStateThatCannotBeReadIsAnError: one that is read in part is none.
func TestAStateThatCannotBeReadIsAnError(t *testing.T) {
	broken, calls := errors.New("broken"), 0
	err := newAdamW(t, DefaultConfig(), randomParam(1, 2), randomParam(2, 2)).Each(func(string, core.Tensor) error {
		calls++
		return broken
	})
	if !errors.Is(err, broken) || calls != 1 {
		t.Errorf("error %v after %d calls", err, calls)
	}
}
