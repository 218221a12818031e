package models_test

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer/models"
)

// linked is a reference kernel under the name of a fused one.
type linked struct {
	core.Kernel
	name string
}

func (l *linked) Info() core.Info {
	i := l.Kernel.Info()
	i.Name = l.name
	return i
}

// kernels registers a kernel for every op, such as reference.Kernel.
func kernels(t *testing.T, of func(core.Op) core.Kernel) *core.Registry {
	t.Helper()
	r := core.NewRegistry()
	for op, name := range map[core.Op]string{core.RMSNorm: "npu_fused_rmsnorm", core.AddRMSNorm: "npu_fused_rmsnorm",
		core.SwiGLU: "npu_fused_swiglu", core.RoPE: "npu_fused_rope", core.MoEGate: "npu_fused_moe", core.MoEExperts: "npu_fused_moe", core.Attention: "npu_fused_attention",
		core.Linear: "npu_fused_linear", core.QKV: "npu_fused_linear", core.GateUpSwiGLU: "npu_fused_linear",
		core.LinearCrossEntropy: "npu_fused_linear_cross_entropy"} {
		if err := r.Register(&linked{of(op), name}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func apply(t *testing.T, m *models.Model, selection string, r *core.Registry) *core.Report {
	t.Helper()
	report, err := core.ApplyDefaultKernels(t.Context(), m, r, selection)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// farthest returns the largest distance of two runs: of a loss, absolute, and of a
// parameter, relative to the tensor's largest element.
func farthest(la, lb []float64, a, b *models.Model) (loss, param float64, name string) {
	for i := range la {
		loss = math.Max(loss, math.Abs(la[i]-lb[i]))
	}
	for i, p := range a.Trainable() {
		diff, scale := 0.0, 0.0
		for j, v := range p.Tensor.Float32s() {
			diff = math.Max(diff, math.Abs(float64(v)-float64(b.Trainable()[i].Tensor.Float32s()[j])))
			scale = math.Max(scale, math.Abs(float64(v)))
		}
		if !(diff/scale <= param) {
			param, name = diff/scale, p.Name
		}
	}
	return loss, param, name
}

// rounding returns the farthest that kernels in float32 are from a run with the same in float64, from its parameters
// and from some whose last bits differ: where terms cancel, as in the gradient of a bias of keys, one run is several times
// as far as another.
func rounding(t *testing.T, config []byte, steps int, losses []float64, m *models.Model) (loss, param float64) {
	t.Helper()
	for seed := range uint64(4) {
		single, rng := newModel(t, config, 1), rand.New(rand.NewPCG(seed, 9))
		apply(t, single, "all", kernels(t, reference.Single))
		for _, p := range single.Trainable() {
			for i, v := range p.Tensor.Float32s() {
				if seed > 0 && v != 0 {
					p.Tensor.Float32s()[i] = math.Float32frombits(math.Float32bits(v) ^ uint32(rng.Uint64()&1))
				}
			}
		}
		l, p, _ := farthest(train(t, single, steps), losses, single, m)
		loss, param = max(loss, l), max(param, p)
	}
	return loss, param
}

// TestPatchedModelTrainsLikeThePlainOne allows a small multiple of what rounding does to
// the patched model itself.
func TestPatchedModelTrainsLikeThePlainOne(t *testing.T) {
	for _, name := range types() {
		t.Run(name, func(t *testing.T) {
			const steps = 32
			config := family(name)
			plain, fused := newModel(t, config, 1), newModel(t, config, 1)
			apply(t, fused, "all", kernels(t, reference.Kernel))
			lp, lf := train(t, plain, steps), train(t, fused, steps)
			loss, param, worst := farthest(lp, lf, plain, fused)
			roundLoss, roundParam := rounding(t, config, steps, lf, fused)
			t.Logf("losses differ by %.3g, rounding %.3g; parameters by %.3g (%s), rounding %.3g", loss, roundLoss, param, worst, roundParam)
			if !(loss <= 4*(roundLoss+0x1p-22)) {
				t.Errorf("losses differ by %.3g, rounding explains %.3g", loss, roundLoss)
			}
			if !(param <= 4*(roundParam+0x1p-23)) {
				t.Errorf("%s differs by %.3g of its largest element, rounding explains %.3g", worst, param, roundParam)
			}
			if lp[0] == lp[1] || loss == 0 {
				t.Errorf("losses %v and %v: were both trained, and with other arithmetic?", lp[:2], lf[:2])
			}
		})
	}
}

func TestAllPatchesEverySite(t *testing.T) {
	for _, name := range types() {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, family(name), 1)
			report := apply(t, m, "all", kernels(t, reference.Kernel))
			covered, plain := 0, map[string]bool{} // sites that the family has in a form that no op has
			for _, a := range report.Actions {
				if a.CoveredBy != "" {
					covered++
				}
				plain[a.Site.Path] = a.Site.Plain != ""
				if (a.CoveredBy != "") != (a.Site.Within != "" && !plain[a.Site.Within]) {
					t.Errorf("%s is within %q, covered by %q", a.Site.Path, a.Site.Within, a.CoveredBy)
				}
				if (a.Site.Hook.Kernel() == nil) != (a.CoveredBy != "" || a.Site.Plain != "" && a.Reason == a.Site.Plain) {
					t.Errorf("%s holds %v, covered by %q", a.Site.Path, a.Site.Hook.Kernel(), a.CoveredBy)
				}
			}
			if len(report.Actions) != len(m.Sites()) || covered < 5 { // two layers: all norms of the stream but the first; the head
				t.Errorf("%d answers for %d sites, %d of them covered:\n%s", len(report.Actions), len(m.Sites()), covered, report)
			}
			prog := compile(t, m)
			defer prog.Close()
			b := batch(rand.New(rand.NewPCG(1, 0)), m.Vocab())
			if err := prog.Batch.Fill(b, b.Targets()); err != nil {
				t.Fatal(err)
			}
			if _, err := prog.Forward(t.Context()); err != nil {
				t.Fatal(err)
			}
			calls := map[string]int{}
			for _, s := range prog.Stats() {
				if s.Kernel != "" && s.Pass == core.Forward {
					calls[s.Kernel] += s.Calls
				}
			}
			if !maps.Equal(calls, report.Applied()) {
				t.Errorf("calls of a forward pass %v, sites %v", calls, report.Applied())
			}
		})
	}
}

func TestPatchingKeepsTheParameters(t *testing.T) {
	m := newModel(t, family("qwen3_moe"), 1)
	before := named(t, m)
	apply(t, m, "all", kernels(t, reference.Kernel))
	for i, n := range named(t, m) {
		if n.Name != before[i].Name || &n.Tensor.Data[0] != &before[i].Tensor.Data[0] {
			t.Errorf("%s became %s, or moved", before[i].Name, n.Name)
		}
	}
}

func TestEveryParameterOfAPatchedModelGetsAGradient(t *testing.T) {
	for _, name := range types() {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, family(name), 1)
			apply(t, m, "all", kernels(t, reference.Kernel))
			prog := compile(t, m)
			defer prog.Close()
			b := batch(rand.New(rand.NewPCG(1, 0)), m.Vocab())
			if err := prog.Batch.Fill(b, b.Targets()); err != nil {
				t.Fatal(err)
			}
			if _, err := prog.Forward(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := prog.Backward(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, p := range m.Params() {
				if !slices.ContainsFunc(prog.Gradient(p), func(g float32) bool { return g != 0 }) {
					t.Errorf("%s gets no gradient", p.Name)
				}
			}
		})
	}
}

func TestRestoreGivesTheSameBitsAsNeverApplying(t *testing.T) {
	for _, name := range types() {
		t.Run(name, func(t *testing.T) {
			untouched, restored := newModel(t, family(name), 1), newModel(t, family(name), 1)
			report := apply(t, restored, "all", kernels(t, reference.Kernel))
			if err := report.Restore(); err != nil {
				t.Fatal(err)
			}
			if a, b := train(t, untouched, 4), train(t, restored, 4); !slices.Equal(a, b) {
				t.Errorf("losses %v, without ever applying %v", b, a)
			}
			same(t, restored, untouched)
		})
	}
}

func TestApplyingTwiceChangesNothing(t *testing.T) {
	r := kernels(t, reference.Kernel)
	once, twice := newModel(t, family("qwen3_moe"), 1), newModel(t, family("qwen3_moe"), 1)
	apply(t, once, "all", r)
	apply(t, twice, "all", r)
	apply(t, twice, "all", r)
	if a, b := train(t, once, 3), train(t, twice, 3); !slices.Equal(a, b) {
		t.Errorf("losses %v and %v", a, b)
	}
}

func TestOneSeedGivesTheSameBits(t *testing.T) {
	for _, selection := range []string{"none", "all", "npu_fused_moe", "all,-npu_fused_rope"} {
		t.Run(selection, func(t *testing.T) {
			var runs [2]*models.Model
			var losses [2][]float64
			for i := range runs {
				runs[i] = newModel(t, family("qwen3_moe"), 1)
				apply(t, runs[i], selection, kernels(t, reference.Kernel))
				losses[i] = train(t, runs[i], 4)
			}
			if !slices.Equal(losses[0], losses[1]) {
				t.Errorf("losses %v and %v", losses[0], losses[1])
			}
			same(t, runs[1], runs[0])
		})
	}
}

func TestPatchesLiveOnOneModel(t *testing.T) {
	a, b := newModel(t, family("llama"), 1), newModel(t, family("llama"), 1)
	apply(t, a, "all", kernels(t, reference.Kernel))
	for _, s := range b.Sites() {
		if s.Hook.Kernel() != nil {
			t.Errorf("%s of another model is patched", s.Path)
		}
	}
}

func TestACompiledModelCannotBePatched(t *testing.T) {
	r := kernels(t, reference.Kernel)
	m := newModel(t, family("llama"), 1)
	first, second := compile(t, m), compile(t, m)
	if _, err := core.ApplyDefaultKernels(t.Context(), m, r, "all"); !errors.Is(err, core.ErrCompiled) {
		t.Errorf("applied to a compiled model: %v", err)
	}
	first.Close()
	if _, err := core.ApplyDefaultKernels(t.Context(), m, r, "all"); !errors.Is(err, core.ErrCompiled) {
		t.Errorf("applied while another graph is left: %v", err)
	}
	for _, s := range m.Sites() {
		if s.Hook.Kernel() != nil {
			t.Errorf("%s was patched by an application that failed", s.Path)
		}
	}
	second.Close()
	report := apply(t, m, "all", r)
	prog := compile(t, m)
	if err := report.Restore(); !errors.Is(err, core.ErrCompiled) {
		t.Errorf("restored a compiled model: %v", err)
	}
	prog.Close()
	if err := report.Restore(); err != nil {
		t.Error(err)
	}
}
