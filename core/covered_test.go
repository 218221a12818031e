package core_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// overlapping returns a model with two norms, the second after an addition.
func overlapping() fakeModel {
	m := newModel(core.RMSNorm, core.AddRMSNorm, core.RMSNorm)
	m[2].Within = m[1].Path
	return m
}

func TestAKernelOfALargerOpCoversTheSitesWithinIt(t *testing.T) {
	m := overlapping()
	r := newRegistry(t, newKernel("norm", core.RMSNorm), newKernel("norm", core.AddRMSNorm))
	report := apply(t, "all", m, r)
	if got := m.kernels(); !slices.Equal(got, []string{"norm", "norm", ""}) {
		t.Errorf("kernels %q, want none at the covered site", got)
	}
	if a := report.Actions[2]; a.CoveredBy != m[1].Path || a.Kernel != nil {
		t.Errorf("covered by %q, kernel %v", a.CoveredBy, a.Kernel)
	}
	for _, want := range []string{"covered by layers.*.add_rms_norm\n",
		"2 of 2 sites use a fused kernel; it does the work of 1 more\n"} {
		if !strings.Contains(report.String(), want) {
			t.Errorf("report lacks %q:\n%s", want, report)
		}
	}
	again := apply(t, "all", m, r)
	if got := m.kernels(); !slices.Equal(got, []string{"norm", "norm", ""}) || again.Actions[2].CoveredBy == "" {
		t.Errorf("applied again: kernels %q, covered by %q", got, again.Actions[2].CoveredBy)
	}
	if err := report.Restore(); err != nil || !slices.Equal(m.kernels(), []string{"", "", ""}) {
		t.Errorf("restored: %v, kernels %q", err, m.kernels())
	}
}

func TestWithoutAKernelOfTheLargerOpTheSiteWithinGetsItsOwn(t *testing.T) {
	m := overlapping()
	report := apply(t, "all", m, newRegistry(t, newKernel("norm", core.RMSNorm)))
	if got := m.kernels(); !slices.Equal(got, []string{"norm", "", "norm"}) {
		t.Errorf("kernels %q", got)
	}
	if !strings.Contains(report.String(), "plain add_rms_norm (no kernel offers add_rms_norm)") {
		t.Errorf("report:\n%s", report)
	}
}

// TestALargerOpCoversWhatLiesWithinWhatItCovers: a norm in a sum in something larger.
func TestALargerOpCoversWhatLiesWithinWhatItCovers(t *testing.T) {
	m := newModel(core.AttentionPre, core.AddRMSNorm, core.RMSNorm)
	m[1].Within, m[2].Within = m[0].Path, m[1].Path
	r := newRegistry(t, newKernel("pre", core.AttentionPre), newKernel("norm", core.RMSNorm),
		newKernel("norm", core.AddRMSNorm))
	report := apply(t, "all", m, r, core.Inference())
	if got := m.kernels(); !slices.Equal(got, []string{"pre", "", ""}) {
		t.Errorf("kernels %q", got)
	}
	for _, a := range report.Actions[1:] {
		if a.CoveredBy != m[0].Path {
			t.Errorf("%s is covered by %q", a.Site.Path, a.CoveredBy)
		}
	}
	p, err := core.Repeat(t.Context(), m, r, report.Placements(), core.Inference())
	if err != nil || p.Actions[2].CoveredBy != m[0].Path {
		t.Errorf("repeated: %v", err)
	}
	other := newModel(core.AttentionPre, core.AddRMSNorm, core.RMSNorm)
	other[1].Within, other[2].Within = other[0].Path, other[1].Path
	apply(t, "all,-pre", other, r, core.Inference())
	if got := other.kernels(); !slices.Equal(got, []string{"", "norm", ""}) {
		t.Errorf("without the largest: kernels %q", got)
	}
}

// TestASiteThatIsExceptedCoversNoOther: kernels are kept off the larger op alone.
func TestASiteThatIsExceptedCoversNoOther(t *testing.T) {
	m := overlapping()
	r := newRegistry(t, newKernel("norm", core.RMSNorm), newKernel("norm", core.AddRMSNorm))
	p, err := plan(t, m, r, "all", core.Except(func(s core.Site) string {
		if s.Op == core.AddRMSNorm {
			return "slow here"
		}
		return ""
	}))
	if err != nil {
		t.Fatal(err)
	}
	report, err := p.Apply()
	if err != nil {
		t.Fatal(err)
	}
	if got := m.kernels(); !slices.Equal(got, []string{"norm", "", "norm"}) || report.Actions[1].Reason != "slow here" {
		t.Errorf("kernels %q, reason %q", got, report.Actions[1].Reason)
	}
}

// TestACoveredSiteKeepsWhatItHolds: the kernel comes into use again when the larger one
// is restored.
func TestACoveredSiteKeepsWhatItHolds(t *testing.T) {
	m := overlapping()
	apply(t, "small", m, newRegistry(t, newKernel("small", core.RMSNorm)))
	report := apply(t, "large", m, newRegistry(t, newKernel("large", core.AddRMSNorm)))
	if got := m.kernels(); !slices.Equal(got, []string{"small", "large", "small"}) {
		t.Errorf("kernels %q", got)
	}
	if a := report.Actions[2]; a.CoveredBy != m[1].Path || a.Kernel != nil {
		t.Errorf("%+v is not reported as covered", a)
	}
	// The larger one stays, and so does what is planned around it.
	report = apply(t, "all", m, newRegistry(t))
	if report.Actions[1].Reason != "in place already" || report.Actions[2].CoveredBy != m[1].Path {
		t.Errorf("planned anew:\n%s", report)
	}
}

// TestASiteIsNotCoveredByAKernelThatWasTakenOff: its own forward is in use again.
func TestASiteIsNotCoveredByAKernelThatWasTakenOff(t *testing.T) {
	m := overlapping()
	report := apply(t, "all", m, newRegistry(t, newKernel("large", core.AddRMSNorm)))
	if n, err := report.TakeOff("large", "it was wrong"); n != 1 || err != nil {
		t.Fatalf("taken off %d sites, error %v", n, err)
	}
	for _, a := range report.Actions[1:] {
		if a.CoveredBy != "" || a.Reason != "it was wrong" {
			t.Errorf("%s is covered by %q, reason %q", a.Site.Path, a.CoveredBy, a.Reason)
		}
	}
	if n := report.Placements()[1].Kernel; n != "" || m.kernels()[1] != "" {
		t.Errorf("the site has %q, by the report %q", m.kernels()[1], n)
	}
}

func TestANamedKernelWhoseSitesAreAllCoveredSaysSo(t *testing.T) {
	m := overlapping()[1:]
	r := newRegistry(t, newKernel("large", core.AddRMSNorm), newKernel("small", core.RMSNorm))
	_, err := core.ApplyDefaultKernels(t.Context(), m, r, "all,small")
	wantErrorIs(t, err, core.ErrNoSite)
	if !strings.Contains(err.Error(), "another kernel at "+m[0].Path) {
		t.Errorf("error %q does not say who covers the site", err)
	}
}
