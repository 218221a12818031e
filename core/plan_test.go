package core_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

func plan(t *testing.T, m core.Model, r *core.Registry, selection string, opts ...core.Option) (*core.Plan, error) {
	t.Helper()
	sel, err := core.ParseSelection(selection)
	if err != nil {
		t.Fatal(err)
	}
	return core.NewPlan(t.Context(), m, r, sel, append([]core.Option{core.Measured(alwaysWorth)}, opts...)...)
}

// alwaysWorth finds every kernel twice as fast.
func alwaysWorth(context.Context, core.Site, core.Kernel) (core.Measurement, error) {
	return core.Measurement{Plain: 2, Kernel: 1}, nil
}

// planned returns the kernel's name or the reason, site by site.
func planned(p *core.Plan) []string {
	var lines []string
	for _, a := range p.Actions {
		if a.Kernel != nil {
			lines = append(lines, a.Kernel.Info().Name)
		} else {
			lines = append(lines, "plain: "+a.Reason)
		}
	}
	return lines
}

func TestPlanAnswersForEverySite(t *testing.T) {
	norm, rope := newKernel("norm", core.RMSNorm), refuse(newKernel("rope", core.RoPE), "rotary_dim=4")
	model := newModel(core.RMSNorm, core.RoPE, core.SwiGLU, core.RMSNorm)
	tests := []struct {
		selection string
		want      []string
	}{
		{"auto", []string{"norm", "plain: rope: not supported: rotary_dim=4", "plain: no kernel offers swiglu", "norm"}},
		{"all", []string{"norm", "plain: rope: not supported: rotary_dim=4", "plain: no kernel offers swiglu", "norm"}},
		{"norm", []string{"norm", "plain: not selected", "plain: no kernel offers swiglu", "norm"}},
		{"auto,-norm", []string{"plain: not selected", "plain: rope: not supported: rotary_dim=4",
			"plain: no kernel offers swiglu", "plain: not selected"}},
		{"none", []string{"plain: kernels are off", "plain: kernels are off", "plain: kernels are off",
			"plain: kernels are off"}},
	}
	for _, tt := range tests {
		t.Run(tt.selection, func(t *testing.T) {
			p, err := plan(t, model, newRegistry(t, norm, rope), tt.selection)
			if err != nil {
				t.Fatal(err)
			}
			if got := planned(p); !slices.Equal(got, tt.want) {
				t.Errorf("got %q\nwant %q", got, tt.want)
			}
		})
	}
}

// TestPlanLeavesASiteThatMustStayPlain: its facts need not be those of a use of the op.
func TestPlanLeavesASiteThatMustStayPlain(t *testing.T) {
	model := newModel(core.RMSNorm, core.RMSNorm)
	model[1].Plain = "weights are int8"
	model[1].Facts.WeightDType = core.Int32
	for _, selection := range []string{"auto", "norm"} {
		p, err := plan(t, model, newRegistry(t, newKernel("norm", core.RMSNorm)), selection)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := planned(p), []string{"norm", "plain: weights are int8"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q\nwant %q", selection, got, want)
		}
	}
}

func TestPlanSwapsNothing(t *testing.T) {
	m := newModel(core.RMSNorm)
	if _, err := plan(t, m, newRegistry(t, newKernel("norm", core.RMSNorm)), "auto"); err != nil {
		t.Fatal(err)
	}
	if m.hook(0).swaps != 0 {
		t.Error("planning swapped a forward")
	}
}

func TestPlanRefusesUnknownNamesEvenWhenExcluded(t *testing.T) {
	r := newRegistry(t, newKernel("norm", core.RMSNorm))
	for selection, want := range map[string]string{"nrom": "first: norm", "auto,-nrom": "first: norm",
		"autp": "; did you mean auto?", "nne": "; did you mean none?"} {
		p, err := plan(t, newModel(core.RMSNorm), r, selection)
		wantErrorIs(t, err, core.ErrUnknownKernel)
		if !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want it to end in %s", selection, err, want)
		}
		if p != nil {
			t.Error("there is a plan besides the error")
		}
	}
}

func TestPlanCanExcludeAPluginThatIsBroken(t *testing.T) {
	r := scan(t, new(fakeOpener).open, writePlugins(t, map[string]string{"rope": "broken", "norm": "norm"}))
	p, err := plan(t, newModel(core.RMSNorm), r, "auto,-rope")
	if err != nil {
		t.Fatal(err)
	}
	if got := planned(p); got[0] != "norm" {
		t.Errorf("got %q, want norm", got)
	}
}

func TestNamedKernelWithoutASiteIsAnError(t *testing.T) {
	p, err := plan(t, newModel(core.RMSNorm), newRegistry(t, newKernel("rope", core.RoPE)), "rope")
	wantErrorIs(t, err, core.ErrNoSite)
	if want := "it offers rope; the model uses rms_norm"; !strings.Contains(err.Error(), want) {
		t.Errorf("error %q, want %q in it", err, want)
	}
	if p != nil {
		t.Error("there is a plan besides the error")
	}
}

// picky takes norms without an offset.
func picky() *fakeKernel {
	k := newKernel("norm", core.RMSNorm)
	k.supports = func(f core.Facts) error {
		if f.Offset == 1 {
			return fmt.Errorf("%w: offset=1", core.ErrNotSupported)
		}
		return nil
	}
	return k
}

func TestNamedKernelLeavesASiteThatItDoesNotFitAndSaysSo(t *testing.T) {
	m := newModel(core.RMSNorm, core.RMSNorm)
	m[1].Facts.Offset = 1
	report, err := core.ApplyKernel(t.Context(), "norm", m, newRegistry(t, picky()))
	if err != nil {
		t.Fatal(err)
	}
	a := report.Actions
	if a[0].Kernel == nil || a[1].Kernel != nil || !a[1].Trouble || !strings.Contains(a[1].Reason, "norm: not supported: offset=1") {
		t.Errorf("%+v", a)
	}
	if brief := report.Brief(""); !strings.Contains(brief, "offset=1") {
		t.Errorf("not said without all sites:\n%s", brief)
	}
}

func TestNamedKernelLeavesASiteToOneThatFits(t *testing.T) {
	m := newModel(core.RMSNorm, core.RMSNorm)
	m[1].Facts.Offset = 1
	p, err := plan(t, m, newRegistry(t, picky(), newKernel("other", core.RMSNorm)), "all,norm")
	if err != nil {
		t.Fatal(err)
	}
	if got := planned(p); !slices.Equal(got, []string{"norm", "other"}) || p.Actions[1].Trouble {
		t.Errorf("got %q, trouble %t", got, p.Actions[1].Trouble)
	}
}

func TestNamedKernelThatDoesNotFitIsToldWhereTheSiteStaysPlain(t *testing.T) {
	m := newModel(core.RMSNorm, core.RMSNorm)
	m[1].Facts.Offset = 1
	slower := core.Measured(func(context.Context, core.Site, core.Kernel) (core.Measurement, error) {
		return core.Measurement{}, fmt.Errorf("%w: nothing to measure", core.ErrNotSupported)
	})
	p, err := plan(t, m, newRegistry(t, picky(), newKernel("other", core.RMSNorm)), "auto,norm", slower)
	if err != nil {
		t.Fatal(err)
	}
	a := p.Actions[1]
	if a.Kernel != nil || !a.Trouble || !strings.Contains(a.Reason, "norm: not supported: offset=1") {
		t.Errorf("kernel %v, trouble %t, reason %q", a.Kernel, a.Trouble, a.Reason)
	}
}

func TestNamedKernelMustTakeASite(t *testing.T) {
	m := newModel(core.RMSNorm)
	m[0].Facts.Offset = 1
	_, err := plan(t, m, newRegistry(t, picky()), "norm")
	wantErrorIs(t, err, core.ErrNotSupported)
	if !strings.Contains(err.Error(), "norm") || !strings.Contains(err.Error(), m[0].Path) {
		t.Errorf("error %q names not both kernel and site", err)
	}
}

// TestANamedKernelIsToldWhyNoneMayTakeItsSites: that the model uses the op is no reason.
func TestANamedKernelIsToldWhyNoneMayTakeItsSites(t *testing.T) {
	r, m := newRegistry(t, newKernel("norm", core.RMSNorm)), newModel(core.SwiGLU, core.RMSNorm)
	want := m[1].Path + " stays plain: its owner keeps it"
	_, excepted := plan(t, m, r, "norm", core.Except(func(s core.Site) string {
		if s.Op == core.RMSNorm {
			return "its owner keeps it"
		}
		return ""
	}))
	m[1].Plain = "its owner keeps it"
	_, always := plan(t, m, r, "norm")
	for _, err := range []error{excepted, always} {
		wantErrorIs(t, err, core.ErrNoSite)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestKernelWithoutBackwardIsForInferenceOnly(t *testing.T) {
	k := newKernel("norm", core.RMSNorm)
	k.info.Backward = false
	r, m := newRegistry(t, k), newModel(core.RMSNorm)

	p, err := plan(t, m, r, "auto")
	if err != nil || p.Actions[0].Kernel != nil || !strings.Contains(p.Actions[0].Reason, "it has no backward pass") {
		t.Errorf("auto in training: %+v, %v, want a reason", p, err)
	}
	_, err = plan(t, m, r, "norm")
	wantErrorIs(t, err, core.ErrNotSupported)
	p, err = plan(t, m, r, "norm", core.Inference())
	if err != nil || p.Actions[0].Kernel == nil {
		t.Errorf("for inference: %+v, %v, want the kernel", p, err)
	}
}

func TestAnOpWithoutBackwardIsForInferenceOnly(t *testing.T) {
	r, m := newRegistry(t, newKernel("int8", core.LinearW8A8)), newModel(core.LinearW8A8)
	p, err := plan(t, m, r, "all")
	if err != nil || p.Actions[0].Kernel != nil ||
		!strings.Contains(p.Actions[0].Reason, "linear_w8a8 is for inference and has no backward pass") {
		t.Errorf("all in training: %+v, %v, want the op's reason", p, err)
	}
	p, err = plan(t, m, r, "all", core.Inference())
	if err != nil || p.Actions[0].Kernel == nil {
		t.Errorf("for inference: %+v, %v, want the kernel", p, err)
	}
}

func TestAnOpCanStayPlainForAReason(t *testing.T) {
	r, m := newRegistry(t, newKernel("norm", core.RMSNorm), newKernel("act",
		core.SwiGLU)), newModel(core.RMSNorm, core.SwiGLU)
	p, err := plan(t, m, r, "all", core.Plain(core.RMSNorm, "computed elsewhere"))
	if err != nil || p.Actions[0].Kernel != nil || !strings.Contains(p.Actions[0].Reason,
		"computed elsewhere") || p.Actions[1].Kernel == nil {
		t.Errorf("%+v, %v, want the reason at the first site and a kernel at the second", p, err)
	}
	_, err = plan(t, m, r, "norm", core.Plain(core.RMSNorm, "computed elsewhere"))
	wantErrorIs(t, err, core.ErrNotSupported)
}

func TestWrongKernelIsKeptOut(t *testing.T) {
	wrong := &verifiedKernel{fakeKernel: *newKernel("norm", core.RMSNorm), err: fmt.Errorf("%w: dx off by 0.3",
		core.ErrWrongResult)}
	r, m := newRegistry(t, wrong), newModel(core.RMSNorm)
	p, err := plan(t, m, r, "auto")
	if err != nil || p.Actions[0].Kernel != nil || !strings.Contains(p.Actions[0].Reason, "dx off by 0.3") {
		t.Errorf("auto: %+v, %v, want the numbers as the reason", p, err)
	}
	if report := apply(t, "all", m, r); !strings.Contains(report.Brief(""), "dx off by 0.3") {
		t.Errorf("not said without all sites:\n%s", report.Brief(""))
	}
	_, err = plan(t, m, r, "norm")
	wantErrorIs(t, err, core.ErrWrongResult)
}

func TestVerificationRunsOnceForEachFacts(t *testing.T) {
	k := &verifiedKernel{fakeKernel: *newKernel("norm", core.RMSNorm)}
	m := newModel(core.RMSNorm, core.RMSNorm, core.RMSNorm)
	m[2].Facts.Dim = 16
	if _, err := plan(t, m, newRegistry(t, k), "auto"); err != nil {
		t.Fatal(err)
	}
	if k.calls != 2 {
		t.Errorf("verified %d times, want 2", k.calls)
	}
}

func TestVerificationWaitsUntilTheFactsAreSupported(t *testing.T) {
	k := &verifiedKernel{fakeKernel: *refuse(newKernel("norm", core.RMSNorm), "no")}
	if _, err := plan(t, newModel(core.RMSNorm), newRegistry(t, k), "auto"); err != nil {
		t.Fatal(err)
	}
	if k.calls != 0 {
		t.Error("a kernel was run on facts that it does not support")
	}
}

func TestTwoKernelsOnOneSiteConflict(t *testing.T) {
	r := newRegistry(t, newKernel("norm_a", core.RMSNorm), newKernel("norm_b", core.RMSNorm))
	m := newModel(core.RMSNorm)
	for selection, remedy := range map[string]string{"all": "exclude one, as in all,-norm_b",
		"norm_a,norm_b": "name one of them alone"} {
		_, err := plan(t, m, r, selection)
		wantErrorIs(t, err, core.ErrConflict)
		for _, want := range []string{"norm_a", "norm_b", m[0].Path, remedy} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not name %s", selection, err, want)
			}
		}
	}
	for selection, want := range map[string]string{"auto,-norm_a": "norm_b", "all,-norm_b": "norm_a",
		"auto,norm_b": "norm_b", "norm_a": "norm_a"} {
		p, err := plan(t, m, r, selection)
		if err != nil {
			t.Errorf("%s: %v", selection, err)
		} else if got := planned(p)[0]; got != want {
			t.Errorf("%s: got %s, want %s", selection, got, want)
		}
	}
}

func TestOnlyKernelsThatCanTakeASiteConflict(t *testing.T) {
	r := newRegistry(t, refuse(newKernel("norm_a", core.RMSNorm), "no"), newKernel("norm_b", core.RMSNorm))
	p, err := plan(t, newModel(core.RMSNorm), r, "auto")
	if err != nil || planned(p)[0] != "norm_b" {
		t.Errorf("got %v, %v, want norm_b", p, err)
	}
}

func TestPlanRefusesFactsThatDescribeNoOp(t *testing.T) {
	m := newModel(core.RMSNorm)
	m[0].Facts.Dim = 0
	_, err := plan(t, m, core.NewRegistry(), "none")
	if err == nil || !strings.Contains(err.Error(), m[0].Path) || !strings.Contains(err.Error(), "dim must be positive") {
		t.Errorf("error %v, want the site and the fact", err)
	}
}
