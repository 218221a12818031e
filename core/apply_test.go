package core_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

func apply(t *testing.T, selection string, m core.Model, r *core.Registry, opts ...core.Option) *core.Report {
	t.Helper()
	report, err := core.ApplyDefaultKernels(t.Context(), m, r, selection, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestApplyPutsThePlannedKernelsInPlace(t *testing.T) {
	m := newModel(core.RMSNorm, core.RoPE, core.RMSNorm)
	report := apply(t, "all", m, newRegistry(t, newKernel("norm", core.RMSNorm)))
	if got := m.kernels(); !slices.Equal(got, []string{"norm", "", "norm"}) {
		t.Errorf("kernels %q, want norm on the two norms", got)
	}
	if got := report.Applied(); !maps.Equal(got, map[string]int{"norm": 2}) {
		t.Errorf("applied %v, want norm twice", got)
	}
}

func TestApplyingTwiceChangesNothing(t *testing.T) {
	m := newModel(core.RMSNorm)
	r := newRegistry(t, newKernel("norm", core.RMSNorm))
	apply(t, "all", m, r)
	second := apply(t, "all", m, r)
	if m.hook(0).swaps != 1 {
		t.Errorf("swapped %d times, want once", m.hook(0).swaps)
	}
	if second.Actions[0].Reason != "in place already" {
		t.Errorf("reason %q, want that it was in place", second.Actions[0].Reason)
	}
	if err := second.Restore(); err != nil || m.kernels()[0] != "norm" {
		t.Errorf("the second report undid what the first had done (%v)", err)
	}
}

// TestRestoreLeavesWhatFollowedATakeOff: the site is another report's by then.
func TestRestoreLeavesWhatFollowedATakeOff(t *testing.T) {
	m := newModel(core.RMSNorm, core.RoPE)
	r := newRegistry(t, newKernel("norm", core.RMSNorm), newKernel("other", core.RMSNorm), newKernel("rope", core.RoPE))
	first := apply(t, "norm,rope", m, r)
	if n, err := first.TakeOff("norm", "why"); n != 1 || err != nil {
		t.Fatalf("taken off %d sites, error %v", n, err)
	}
	second := apply(t, "other", m, r)
	if err := first.Restore(); err != nil || !slices.Equal(m.kernels(), []string{"other", ""}) {
		t.Errorf("kernels %q, want other, which is the second report's; error %v", m.kernels(), err)
	}
	if err := second.Restore(); err != nil || m.kernels()[0] != "" {
		t.Errorf("kernels %q, want none; error %v", m.kernels(), err)
	}
}

func TestApplyKernelPlacesOneByName(t *testing.T) {
	m := newModel(core.RMSNorm, core.RoPE)
	r := newRegistry(t, newKernel("norm", core.RMSNorm), newKernel("rope", core.RoPE))
	if _, err := core.ApplyKernel(t.Context(), "rope", m, r); err != nil {
		t.Fatal(err)
	}
	if got := m.kernels(); !slices.Equal(got, []string{"", "rope"}) {
		t.Errorf("kernels %q, want only rope", got)
	}
	_, err := core.ApplyKernel(t.Context(), "rope", newModel(core.RMSNorm), r)
	wantErrorIs(t, err, core.ErrNoSite)
	_, err = core.ApplyKernel(t.Context(), "robe", m, r)
	wantErrorIs(t, err, core.ErrUnknownKernel)
}

func TestApplyKeepsWhatAnEarlierReportPlaced(t *testing.T) {
	m := newModel(core.RMSNorm, core.RoPE)
	r := newRegistry(t, newKernel("norm", core.RMSNorm), newKernel("rope", core.RoPE))
	apply(t, "norm", m, r)
	second := apply(t, "rope", m, r)
	if got := m.kernels(); !slices.Equal(got, []string{"norm", "rope"}) {
		t.Errorf("kernels %q, want both", got)
	}
	if got := second.Applied(); !maps.Equal(got, map[string]int{"norm": 1, "rope": 1}) {
		t.Errorf("the second report counts %v, want both", got)
	}
}

func TestApplyOverAnotherKernelConflicts(t *testing.T) {
	m := newModel(core.SwiGLU, core.RMSNorm)
	apply(t, "all", m[1:], newRegistry(t, newKernel("norm_a", core.RMSNorm)))
	_, err := core.ApplyDefaultKernels(t.Context(),
		m, newRegistry(t, newKernel("norm_b", core.RMSNorm), newKernel("swiglu", core.SwiGLU)), "all")
	wantErrorIs(t, err, core.ErrConflict)
	for _, want := range []string{"norm_a", "norm_b", m[1].Path} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %s", err, want)
		}
	}
	if got := m.kernels(); !slices.Equal(got, []string{"", "norm_a"}) {
		t.Errorf("kernels %q after the error, want those of before", got)
	}
}

// TestApplyOfNoneOverAKernelConflicts: whoever wants a site plain would compare fused with fused.
func TestApplyOfNoneOverAKernelConflicts(t *testing.T) {
	norms := core.Except(func(s core.Site) string {
		if s.Op == core.RMSNorm {
			return "not here"
		}
		return ""
	})
	for name, c := range map[string]struct {
		selection string
		options   []core.Option
		conflict  string // "" for none
	}{
		"none":               {"none", nil, "kernels are off"},
		"an exclusion":       {"all,-norm", nil, "not selected"},
		"an exception":       {"all", []core.Option{norms}, "not here"},
		"another name":       {"rope", nil, ""},
		"another exclusion":  {"all,-rope", nil, ""},
		"an op of another's": {"all", []core.Option{core.Plain(core.RMSNorm, "elsewhere")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(core.RoPE, core.RMSNorm)
			r := newRegistry(t, newKernel("norm", core.RMSNorm), newKernel("rope", core.RoPE))
			first := apply(t, "norm", m, r)
			_, err := core.ApplyDefaultKernels(t.Context(), m, r, c.selection, c.options...)
			if c.conflict == "" {
				if err != nil || m.kernels()[1] != "norm" {
					t.Errorf("error %v, kernels %q", err, m.kernels())
				}
				return
			}
			wantErrorIs(t, err, core.ErrConflict)
			for _, want := range []string{m[1].Path, "it holds norm", c.conflict, "restore the first report"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if got := m.kernels(); !slices.Equal(got, []string{"", "norm"}) {
				t.Errorf("kernels %q after the error, want those of before", got)
			}
			if err := first.Restore(); err != nil {
				t.Fatal(err)
			}
			apply(t, c.selection, m, r, c.options...)
			if got := m.kernels()[1]; got != "" {
				t.Errorf("after the restore the norm has %q", got)
			}
		})
	}
}

func TestApplyIsAllOrNothing(t *testing.T) {
	m := newModel(core.RMSNorm, core.RMSNorm, core.RMSNorm)
	broken := errors.New("no room")
	m.hook(2).fail = broken
	_, err := core.ApplyDefaultKernels(t.Context(), m, newRegistry(t, newKernel("norm", core.RMSNorm)), "all")
	wantErrorIs(t, err, broken)
	if !strings.Contains(err.Error(), "put norm on "+m[2].Path) {
		t.Errorf("error %q does not say what failed where", err)
	}
	if got := m.kernels(); !slices.Equal(got, []string{"", "", ""}) {
		t.Errorf("kernels %q after the error, want none", got)
	}
}

// panicking is a hook whose Swap panics.
type panicking struct{ *fakeHook }

func (panicking) Swap(core.Kernel) error { panic("mine") }

func TestAPanicOfAHookLeavesNoSitePatched(t *testing.T) {
	m := newModel(core.RMSNorm, core.RMSNorm)
	first := m.hook(0)
	m[1].Hook = panicking{m.hook(1)}
	r := newRegistry(t, newKernel("norm", core.RMSNorm))
	defer func() {
		if p := recover(); p != "mine" || first.swaps != 2 || first.kernel != nil {
			t.Errorf("panic %v, swapped %d times, kernel %v", p, first.swaps, first.kernel)
		}
	}()
	report, err := core.ApplyDefaultKernels(t.Context(), m, r, "all")
	t.Errorf("report %v, error %v", report, err)
}

func TestApplyToACompiledModelSaysSo(t *testing.T) {
	m := newModel(core.RMSNorm)
	m.hook(0).fail = core.ErrCompiled
	_, err := core.ApplyDefaultKernels(t.Context(), m, newRegistry(t, newKernel("norm", core.RMSNorm)), "all")
	wantErrorIs(t, err, core.ErrCompiled)
}

func TestRestoreUndoesItsOwnReportOnly(t *testing.T) {
	m := newModel(core.RMSNorm, core.RoPE)
	r := newRegistry(t, newKernel("norm", core.RMSNorm), newKernel("rope", core.RoPE))
	first := apply(t, "norm", m, r)
	apply(t, "rope", m, r)
	if err := first.Restore(); err != nil {
		t.Fatal(err)
	}
	if got := m.kernels(); !slices.Equal(got, []string{"", "rope"}) {
		t.Errorf("kernels %q, want only rope left", got)
	}
}

func TestRestoringTwiceDoesNothingMore(t *testing.T) {
	m := newModel(core.RMSNorm)
	r := newRegistry(t, newKernel("norm", core.RMSNorm))
	first := apply(t, "all", m, r)
	if err := first.Restore(); err != nil {
		t.Fatal(err)
	}
	apply(t, "all", m, r)
	if err := first.Restore(); err != nil || m.kernels()[0] != "norm" {
		t.Errorf("kernels %q, %v: the second restore reached into a later report", m.kernels(), err)
	}
}

func TestRestoreOfACompiledModelCanBeTriedAgain(t *testing.T) {
	m := newModel(core.RMSNorm, core.RMSNorm)
	report := apply(t, "all", m, newRegistry(t, newKernel("norm", core.RMSNorm)))
	m.hook(0).fail = core.ErrCompiled
	err := report.Restore()
	wantErrorIs(t, err, core.ErrCompiled)
	if got := m.kernels(); !slices.Equal(got, []string{"norm", ""}) {
		t.Errorf("kernels %q, want the one that could be restored gone", got)
	}
	m.hook(0).fail = nil
	if err := report.Restore(); err != nil || m.kernels()[0] != "" {
		t.Errorf("kernels %q, %v after the second try, want none", m.kernels(), err)
	}
}
