package core_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

func repeated(t *testing.T, m fakeModel, r *core.Registry, was []core.Placement, opts ...core.Option) *core.Report {
	t.Helper()
	p, err := core.Repeat(t.Context(), m, r, was, opts...)
	if err != nil {
		t.Fatal(err)
	}
	report, err := p.Apply()
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestRepeatPlacesWhatWasThere: also where two kernels offer the same op, between which no
// selection could decide, and at some sites of an op and not at others.
func TestRepeatPlacesWhatWasThere(t *testing.T) {
	m := newModel(core.SwiGLU, core.SwiGLU, core.SwiGLU, core.RoPE)
	r := newRegistry(t, newKernel("a", core.SwiGLU), newKernel("b", core.SwiGLU), newKernel("b", core.RoPE))
	var was []core.Placement
	want := []string{"b", "", "a", "b"}
	for i, s := range m {
		was = append(was, core.Placement{Path: s.Path, Op: s.Op, Kernel: want[i]})
	}
	report := repeated(t, m, r, was)
	if got := m.kernels(); !slices.Equal(got, want) {
		t.Errorf("kernels %q, want %q", got, want)
	}
	if !slices.Equal(report.Placements(), was) {
		t.Errorf("placements %v, want %v", report.Placements(), was)
	}
}

func TestRepeatOfAPlainSiteOverAKernelConflicts(t *testing.T) {
	m, r := newModel(core.RMSNorm, core.RoPE), newRegistry(t, newKernel("norm", core.RMSNorm), newKernel("rope", core.RoPE))
	was := apply(t, "rope", newModel(core.RMSNorm, core.RoPE), r).Placements()
	apply(t, "norm", m, r)
	p, err := core.Repeat(t.Context(), m, r, was)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Apply()
	wantErrorIs(t, err, core.ErrConflict)
}

func TestRepeatKnowsWhatALargerOpCovered(t *testing.T) {
	r := newRegistry(t, newKernel("norm", core.RMSNorm), newKernel("norm", core.AddRMSNorm))
	was := apply(t, "all", overlapping(), r).Placements()
	m := overlapping()
	if a := repeated(t, m, r, was).Actions[2]; a.CoveredBy != m[1].Path || a.Kernel != nil || a.Reason != "" {
		t.Errorf("%+v, want it covered by %s", a, m[1].Path)
	}
}

func TestRepeatLeavesOpsPlainThatTheCallerComputes(t *testing.T) {
	r := newRegistry(t, newKernel("norm", core.RMSNorm), newKernel("loss", core.LinearCrossEntropy))
	was := apply(t, "all", newModel(core.RMSNorm, core.LinearCrossEntropy), r).Placements()
	m := newModel(core.RMSNorm, core.LinearCrossEntropy)
	report := repeated(t, m, r, was, core.Plain(core.LinearCrossEntropy, "no labels"))
	if got := m.kernels(); !slices.Equal(got, []string{"norm", ""}) || report.Actions[1].Reason != "no labels" {
		t.Errorf("kernels %q, reason %q", got, report.Actions[1].Reason)
	}
}

// TestRepeatOfTrainingLeavesOpsForInferencePlain: a model that writes has sites that training has not.
func TestRepeatOfTrainingLeavesOpsForInferencePlain(t *testing.T) {
	r := newRegistry(t, newKernel("rope", core.RoPE))
	writes := func() fakeModel { return newModel(core.PagedAttention, core.RoPE, core.ReshapeAndCache) }
	m := writes()
	was := []core.Placement{{Path: m[1].Path, Op: core.RoPE, Kernel: "rope"}}
	repeated(t, m, r, was, core.Inference())
	if got := m.kernels(); !slices.Equal(got, []string{"", "rope", ""}) {
		t.Errorf("kernels %q", got)
	}
	if _, err := core.Repeat(t.Context(), writes(), r, was); !errors.Is(err, core.ErrNoSite) {
		t.Errorf("in training: error %v, want one that wraps ErrNoSite", err)
	}
}

func TestRepeatRefusesWhatCannotBeAsItWas(t *testing.T) {
	norm := newKernel("norm", core.RMSNorm)
	two := newModel(core.RMSNorm, core.SwiGLU)
	was := apply(t, "all", two, newRegistry(t, norm, newKernel("glu", core.SwiGLU))).Placements()
	for name, tt := range map[string]struct {
		model fakeModel
		reg   *core.Registry
		want  error
		text  string
	}{
		"a kernel that is gone": {newModel(core.RMSNorm, core.SwiGLU), newRegistry(t, norm),
			core.ErrUnknownKernel, "layers.1.swiglu had the kernel glu"},
		"an op that is gone": {newModel(core.RMSNorm, core.SwiGLU),
			newRegistry(t, norm, newKernel("glu", core.RoPE)), core.ErrNotSupported, "it offers swiglu no more"},
		"a kernel that says no": {newModel(core.RMSNorm, core.SwiGLU),
			newRegistry(t, norm, refuse(newKernel("glu", core.SwiGLU), "too wide")), core.ErrNotSupported, "too wide"},
		"a site that is gone": {newModel(core.RMSNorm), newRegistry(t, norm),
			core.ErrNoSite, "the run had layers.1.swiglu"},
		"a site that is new": {newModel(core.RMSNorm, core.SwiGLU, core.RoPE), newRegistry(t, norm),
			core.ErrNoSite, "the model has layers.2.rope"},
		"a site in place of another": {newModel(core.RoPE, core.SwiGLU), newRegistry(t, norm),
			core.ErrNoSite, "layers.0.rope (rope) where the run had layers.0.rms_norm"},
		"a site of another name": {named(newModel(core.RMSNorm, core.SwiGLU), "layers.0.mlp"), newRegistry(t, norm),
			core.ErrNoSite, "layers.0.mlp (swiglu) where the run had layers.1.swiglu (swiglu)"},
		"a site that has to be plain": {plainSite(newModel(core.RMSNorm, core.SwiGLU)),
			newRegistry(t, norm, newKernel("glu", core.SwiGLU)), core.ErrNotSupported, "adapters"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := core.Repeat(t.Context(), tt.model, tt.reg, was)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %v and %q", err, tt.want, tt.text)
			}
		})
	}
}

func named(m fakeModel, path string) fakeModel {
	m[1].Path = path
	return m
}

func plainSite(m fakeModel) fakeModel {
	m[1].Plain = "its weights have adapters"
	return m
}

// TestNewPlanReadsNoRun: core has no file formats.
func TestNewPlanReadsNoRun(t *testing.T) {
	_, err := core.ApplyDefaultKernels(t.Context(), newModel(core.RMSNorm), newRegistry(t), "from:out")
	if err == nil || !strings.Contains(err.Error(), "trainer/placement") {
		t.Errorf("error %v", err)
	}
}
