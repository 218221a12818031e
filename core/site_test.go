package core_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// misuse plans, applies or repeats with what a program may have got wrong.
func misuse(t *testing.T, m core.Model, r *core.Registry, want string) {
	t.Helper()
	_, planned := core.NewPlan(t.Context(), m, r, core.Selection{All: true})
	_, applied := core.ApplyKernel(t.Context(), "norm", m, r)
	_, repeated := core.Repeat(t.Context(), m, r, nil)
	for what, err := range map[string]error{"plan": planned, "apply": applied, "repeat": repeated} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", what, err, want)
		}
	}
}

func TestSitesThatCannotBePatchedAreErrors(t *testing.T) {
	hook := &fakeHook{}
	site := func(path string, h core.Hook) core.Site {
		return core.Site{Path: path, Op: core.RMSNorm, Facts: validFacts(core.RMSNorm), Hook: h}
	}
	r := newRegistry(t, newKernel("norm", core.RMSNorm))
	for want, m := range map[string]core.Model{
		"there is no model":                 nil,
		"site norm has no hook":             fakeModel{site("norm", nil)},
		"site 1 (rms_norm) has no path":     fakeModel{site("norm", &fakeHook{}), site("", &fakeHook{})},
		"lists the site norm twice":         fakeModel{site("norm", &fakeHook{}), site("norm", &fakeHook{})},
		"the sites a and b share a hook":    fakeModel{site("a", hook), site("b", hook)},
		"set Site.Hook to what swaps":       fakeModel{{Path: "plain", Op: core.RMSNorm, Plain: "always"}},
		"pass one of ScanAllKernels or New": nil, // with no registry either
	} {
		if strings.HasPrefix(want, "pass one") {
			misuse(t, newModel(core.RMSNorm), nil, want)
			continue
		}
		misuse(t, m, r, want)
	}
}

func TestAPlanMadeByHandIsCheckedToo(t *testing.T) {
	p := &core.Plan{Actions: []core.Action{{Site: core.Site{Path: "norm", Op: core.RMSNorm}}}}
	report, err := p.Apply()
	if err == nil || !strings.Contains(err.Error(), "site norm has no hook") {
		t.Errorf("error %v", err)
	}
	if err := report.Restore(); err != nil {
		t.Errorf("a report that there is not: %v", err)
	}
}

func TestARegistryThatThereIsNotIsEmpty(t *testing.T) {
	var none *core.Registry
	_, err := none.Lookup("norm")
	wantErrorIs(t, err, core.ErrUnknownKernel)
	if none.Kernels() != nil || none.Names() != nil || none.Listing() != nil || none.Close() != nil {
		t.Error("it has something")
	}
}

func TestARegistryRefusesNothing(t *testing.T) {
	var none *core.Registry
	for _, err := range []error{core.NewRegistry().Register(nil), none.Register(newKernel("norm", core.RMSNorm))} {
		if err == nil || !strings.Contains(err.Error(), "neither of them nil") {
			t.Errorf("error %v", err)
		}
	}
}

func TestAScanThatCannotBeMadeIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plugin.exe"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	nothing := func(context.Context, string) (core.Plugin, error) { return nil, nil }
	for want, tt := range map[string]struct {
		dirs []string
		open core.Opener
	}{
		"no opener: pass transport.Open": {[]string{dir}, nil},
		"name of a folder is empty":      {[]string{""}, nothing},
		"is named twice":                 {[]string{dir, dir}, nothing},
	} {
		if _, err := core.ScanAllKernels(t.Context(), tt.dirs, tt.open); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
	dir = writePlugins(t, map[string]string{"a": "norm", "b": "norm", "c": "norm"}) // of copies, two are opened
	r, err := core.ScanAllKernels(t.Context(), []string{dir}, nothing)
	if err != nil || len(r.Listing()) != 3 {
		t.Fatalf("an opener that returns nothing: %v, %v", r, err)
	}
	for _, f := range r.Listing() {
		wantErrorIs(t, f.Err, core.ErrIncompatible)
	}
}

// unmeasured is a model that does not say how auto measures.
type unmeasured struct{ core.Model }

// measurer is one that does.
type measurer struct {
	core.Model
	inference bool
}

func (m *measurer) Measure(_ *core.Registry, inference bool) core.Measure {
	m.inference = inference
	return alwaysWorth
}

func TestAutoAsksTheModelHowToMeasure(t *testing.T) {
	r := newRegistry(t, newKernel("norm", core.RMSNorm))
	_, err := core.ApplyDefaultKernels(t.Context(), unmeasured{newModel(core.RMSNorm)}, r, "auto")
	if err == nil || !strings.Contains(err.Error(), "core.Measured(measure.New(...))") {
		t.Errorf("error %v, want what to pass", err)
	}
	if _, err := core.ApplyDefaultKernels(t.Context(), unmeasured{newModel(core.RMSNorm)}, r, "all"); err != nil {
		t.Error(err)
	}
	m := &measurer{Model: newModel(core.RMSNorm)}
	report, err := core.ApplyDefaultKernels(t.Context(), m, r, "auto", core.Inference())
	if err != nil || report.Actions[0].Measured == nil || !m.inference {
		t.Errorf("report %v, error %v, in inference %v", report, err, m.inference)
	}
}

// TestThePlanEndsWithItsContext, if that has ended something: a plan that asks nothing of
// anybody is made.
func TestThePlanEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	was := []core.Placement{{Path: "layers.0.rms_norm", Op: core.RMSNorm, Kernel: "norm"}}
	k := &verifiedKernel{fakeKernel: *newKernel("norm", core.RMSNorm), err: errors.New("its process was ended")}
	cut := newRegistry(t, k)
	for _, selection := range []string{"all", "norm"} {
		_, err := core.ApplyDefaultKernels(ctx, newModel(core.RMSNorm), cut, selection)
		wantErrorIs(t, err, context.Canceled)
	}
	_, err := core.Repeat(ctx, newModel(core.RMSNorm), cut, was)
	wantErrorIs(t, err, context.Canceled)
	idle := newRegistry(t, newKernel("norm", core.RMSNorm))
	if _, err := core.ApplyDefaultKernels(ctx, newModel(core.RMSNorm), idle, "all"); err != nil {
		t.Error(err)
	}
}
