package core_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

func TestLookupListsKnownNamesNearestFirst(t *testing.T) {
	tests := []struct {
		name  string
		known []string // nearest first
	}{
		{"npu_fused_ropee", []string{"npu_fused_rope", "npu_fused_moe", "npu_fused_rmsnorm"}},
		{"rope", []string{"npu_fused_rope", "npu_fused_moe", "npu_fused_rmsnorm"}},
		{"abcd", []string{"abxd", "abcdef"}}, // one letter replaced is nearer than two added
		{"abcd", []string{"abc", "ab", "a"}},
		{"", []string{"a", "ab"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := core.NewRegistry()
			for _, known := range tt.known {
				if err := r.Register(newKernel(known, core.RMSNorm)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := r.Lookup(tt.name)
			wantErrorIs(t, err, core.ErrUnknownKernel)
			if want := "nearest first: " + strings.Join(tt.known, ", "); !strings.HasSuffix(err.Error(), want) {
				t.Errorf("error %q, want it to end in %q", err, want)
			}
		})
	}
}

func TestLookupWithoutKernelsSaysWhatToDo(t *testing.T) {
	_, err := core.NewRegistry().Lookup("any")
	wantErrorIs(t, err, core.ErrUnknownKernel)
	if !strings.Contains(err.Error(), "build the plugins") {
		t.Errorf("error %q gives no remedy", err)
	}
}

func TestAClosedRegistrySaysSo(t *testing.T) {
	r := newRegistry(t, newKernel("norm", core.RMSNorm))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if f, ok := r.Find("norm"); ok || len(r.Kernels()) > 0 {
		t.Errorf("found %v, kernels %v", f, r.Kernels())
	}
	if len(r.Listing()) != 1 {
		t.Errorf("listing %v, want what was found", r.Listing())
	}
	for name, use := range map[string]func() error{
		"lookup":    func() error { _, err := r.Lookup("norm"); return err },
		"register":  func() error { return r.Register(newKernel("rope", core.RoPE)) },
		"built-in":  func() error { return r.AddBuiltIn(t.Context(), []string{"rope"}, noBuiltIn) },
		"selection": func() error { _, err := plan(t, newModel(core.RMSNorm), r, "all"); return err },
		"none":      func() error { _, err := plan(t, newModel(core.RMSNorm), r, "none"); return err },
		"name":      func() error { _, err := core.ApplyKernel(t.Context(), "norm", newModel(core.RMSNorm), r); return err },
		"repetition": func() error {
			m := newModel(core.RMSNorm)
			_, err := core.Repeat(t.Context(), m, r, []core.Placement{{Path: m[0].Path, Op: m[0].Op}})
			return err
		},
	} {
		if err := use(); err == nil || !strings.Contains(err.Error(), "the registry is closed") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// TestWhatComesWithAnErrorIsEmpty: a nil registry and a nil report.
func TestWhatComesWithAnErrorIsEmpty(t *testing.T) {
	var r *core.Registry
	r.Rest(nil)
	if err := r.AddBuiltIn(t.Context(), []string{"rope"}, noBuiltIn); err == nil || !strings.Contains(err.Error(), "no registry") {
		t.Errorf("error %v", err)
	}
	err := core.NewRegistry().AddBuiltIn(t.Context(), []string{"rope"}, nil)
	if err == nil || !strings.Contains(err.Error(), "pass transport.OpenBuiltIn") {
		t.Errorf("error %v", err)
	}
	var report *core.Report
	const none = "0 of 0 sites use a fused kernel"
	if !strings.Contains(report.String(), none) || report.Brief("; why") != none+"; why\n" {
		t.Errorf("report %q, in brief %q", report, report.Brief("; why"))
	}
	n, err := report.TakeOff("rope", "why")
	if len(report.Applied())+len(report.Placements())+report.Processes()+n > 0 || err != nil || report.Restore() != nil {
		t.Errorf("a report of nothing has done something: %d sites, %v", n, err)
	}
}

// noBuiltIn opens none of the plugins.
func noBuiltIn(context.Context, []string) ([]core.Plugin, []error) { return nil, nil }

func TestLookupOfAPluginThatCannotBeUsedGivesItsReason(t *testing.T) {
	r := scan(t, new(fakeOpener).open, writePlugins(t, map[string]string{"npu_fused_rope": "broken", "other": "norm"}))
	_, err := r.Lookup("npu_fused_rope")
	if err == nil || !strings.Contains(err.Error(), "no handshake") {
		t.Errorf("error %v, want the reason of the broken file", err)
	}
}

func TestLookupReturnsEveryOpOfAName(t *testing.T) {
	r := newRegistry(t, newKernel("both", core.SwiGLU), newKernel("other", core.RoPE), newKernel("both", core.RMSNorm))
	ks, err := r.Lookup("both")
	if err != nil {
		t.Fatal(err)
	}
	if len(ks) != 2 || ks[0].Info().Op != core.RMSNorm || ks[1].Info().Op != core.SwiGLU {
		t.Errorf("got %d kernels, want those of rms_norm and swiglu", len(ks))
	}
}

func TestRegisterRefusesATakenName(t *testing.T) {
	r := newRegistry(t, newKernel("norm", core.RMSNorm))
	wantErrorIs(t, r.Register(newKernel("norm", core.RMSNorm)), core.ErrDuplicate)
	if n := len(r.Kernels()); n != 1 {
		t.Errorf("%d kernels after the refusal, want 1", n)
	}
}

func TestRegisterRefusesNamesThatSelectionsCannotSay(t *testing.T) {
	for _, name := range []string{"", "auto", "all", "none", "from:a", "a b", "a,b", "-a"} {
		if err := core.NewRegistry().Register(newKernel(name, core.RMSNorm)); err == nil {
			t.Errorf("name %q was taken", name)
		}
	}
}

// valueKernel cannot be compared, and patching compares kernels.
type valueKernel struct {
	*fakeKernel
	sizes []int
}

func TestRegisterRefusesAKernelThatCannotBeCompared(t *testing.T) {
	err := core.NewRegistry().Register(valueKernel{newKernel("norm", core.RMSNorm), nil})
	if err == nil || !strings.Contains(err.Error(), "pointer") {
		t.Errorf("error %v, want one that asks for a pointer", err)
	}
}

func TestNamesAreSortedAndDistinct(t *testing.T) {
	r := newRegistry(t, newKernel("b", core.SwiGLU), newKernel("a", core.RoPE), newKernel("b", core.RMSNorm))
	if got := r.Names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q, want a and b", got)
	}
}

func TestListingShowsLinkedKernels(t *testing.T) {
	l := newRegistry(t, newKernel("norm", core.RMSNorm)).Listing()
	if len(l) != 1 || l[0].Path != "(linked)" || l[0].Manifest.Name != "norm" || l[0].Err != nil {
		t.Errorf("got %+v", l)
	}
}
