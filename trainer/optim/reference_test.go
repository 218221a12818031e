package optim

import (
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// multiple is how many times the error of the reference's own float32 a tensor may be off; where
// that was luckier than one rounding, a rounding counts.
const multiple = 4

// replay runs an optimizer over a variant's gradients and returns the values after each step.
func replay(t *testing.T, g *golden, name string, c Config, lr float64) (got []float32, o *Optimizer) {
	t.Helper()
	grads, shape := g.floats(t, name+".in.grads")
	p0, _ := g.floats(t, name+".in.p0")
	n := core.Shape(shape[1:]).Elems()
	p := Param{Name: "p", Shape: shape[1:], Value: narrow(p0), Grad: make([]float32, n), Decay: true}
	o = newAdamW(t, c, p)
	for s := range shape[0] {
		copy(p.Grad, narrow(grads[s*n:][:n]))
		o.Step(lr, 1)
		got = append(got, p.Value...)
	}
	return got, o
}

// TestKindsMatchTheirReferences compares the values after every step, and what is remembered after the last.
func TestKindsMatchTheirReferences(t *testing.T) {
	for _, kind := range []Kind{Adafactor, Lion, SGD, Muon} {
		g := openGolden(t, string(kind))
		for name, variant := range g.meta.Variants {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				v := variant.numbers()
				c := Config{Kind: kind, Beta1: v["beta1"], Beta2: v["beta2"], Eps: 1e-8, WeightDecay: v["weight_decay"],
					Momentum: v["momentum"], ScaleParameter: v["scale_parameter"] == 1}
				got, o := replay(t, g, name, c, v["lr"])
				check := func(what string, got []float32) {
					want, _ := g.floats(t, name+".f64."+what)
					if rel, limit := relative(got, want), multiple*max(variant.Rel[what], 0x1p-24); !(rel <= limit) {
						t.Errorf("%s: relative error %.2g, want at most %.2g", what, rel, limit)
					}
				}
				check("params", got)
				for key, tensor := range state(o) {
					check(strings.TrimSuffix(key, ".p"), tensor.Float32s())
				}
			})
		}
	}
}

// TestAdamW8MatchesBitsandbytes compares codes and magnitudes after 25 steps, and the values block by block.
func TestAdamW8MatchesBitsandbytes(t *testing.T) {
	g := openGolden(t, "adamw8bit")
	for name, last := range map[string]string{"n4396": "params_last", "n4096_wd": "params_decay_before_last",
		"small4095": "params_decay_before_last"} {
		t.Run(name, func(t *testing.T) {
			variant := g.meta.Variants[name]
			v := variant.numbers()
			base, shape := g.floats(t, name+".in.grads_base")
			scale, _ := g.floats(t, name+".in.grad_scale")
			p0, _ := g.floats(t, name+".in.p0")
			n := shape[1]
			p := Param{Name: "p", Value: narrow(p0), Grad: make([]float32, n), Decay: true}
			o := newAdamW(t, Config{Kind: AdamW8, Beta1: v["beta1"], Beta2: v["beta2"], Eps: v["eps"],
				WeightDecay: v["weight_decay"]}, p)
			for s, by := range scale {
				for i, x := range base[s%shape[0]*n:][:n] {
					p.Grad[i] = float32(x * by)
				}
				o.Step(v["lr"], 1)
			}
			want, _ := g.floats(t, name+".f64."+last)
			worst := 0.0
			for at := 0; at < n; at += block {
				to := min(at+block, n)
				worst = max(worst, relative(p.Value[at:to], want[at:to]))
			}
			if limit := multiple * max(variant.Worst, variant.Rel[last], 0x1p-24); !(worst <= limit) {
				t.Errorf("values: relative error of a block %.2g, want at most %.2g", worst, limit)
			}
			if name != "small4095" {
				g.compareCodes(t, name, state(o), variant.Rel)
			}
		})
	}
}

func (g *golden) compareCodes(t *testing.T, name string, got map[string]core.Tensor, rel map[string]float64) {
	t.Helper()
	for _, k := range []string{"1", "2"} {
		absmax := got["absmax"+k+".p"].Float32s()
		want, _ := g.floats(t, name+".f64.absmax"+k)
		if d, limit := relative(absmax, want), multiple*max(rel["absmax"+k], 0x1p-24); !(d <= limit) {
			t.Errorf("absmax%s: relative error %.2g, want at most %.2g", k, d, limit)
		}
		codes, err := g.file.Tensor(name + ".out.codes" + k)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range codes.Int64s() {
			if c := got["state"+k+".p"].Data[i]; int64(c) != w && absmax[i/block] != 0 {
				t.Fatalf("code %d of moment %s is %d, want %d", i, k, c, w)
			}
		}
	}
}

// TestMuonCanStepAsFarAsAdamW: a matrix whose update is orthogonal has a root mean square of 1/sqrt(larger side).
func TestMuonCanStepAsFarAsAdamW(t *testing.T) {
	p := randomParam(1, 64*256)
	p.Shape, p.Decay = core.Shape{64, 256}, false
	was := append([]float32(nil), p.Value...)
	o := newAdamW(t, Config{Kind: Muon, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Momentum: 0.95, MatchRMS: true}, p)
	o.Step(1, 1)
	sum := 0.0
	for i, x := range p.Value {
		sum += math.Pow(float64(x-was[i]), 2)
	}
	// The iteration leaves singular values between about 0.7 and 1.2.
	if rms := math.Sqrt(sum / float64(len(was))); rms < 0.2*0.6 || rms > 0.2*1.3 {
		t.Errorf("a step of learning rate 1 has a root mean square of %g, want about 0.2", rms)
	}
}
