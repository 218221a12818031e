package parity_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/plugins/linked"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/parity"
)

func TestMain(m *testing.M) { plugintest.Main(m) }

// cases are the folders of the reference models that there are, and of one that is repacked.
func cases(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(testdata.Shared(t, "golden", "models"), "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%d reference models, %v", len(dirs), err)
	}
	return append(dirs, phi3(t))
}

func TestPlainForwardEqualsTheReference(t *testing.T) {
	for _, dir := range cases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			r, err := withLinked(t, dir, "none")
			if err != nil {
				t.Fatal(err)
			}
			check(t, r)
		})
	}
}

// comparison is what came of comparing a model.
type comparison struct {
	result *parity.Result
	err    error
}

// compared has, by model and selection, what withLinked has compared so far; several tests look at the same.
var compared = map[[2]string]comparison{}

// withLinked compares a model with a selection of the linked kernels; once.
func withLinked(t *testing.T, dir, kernels string) (*parity.Result, error) {
	t.Helper()
	key := [2]string{filepath.Base(dir), kernels}
	c, ok := compared[key]
	if !ok {
		o := parity.Options{Memory: autograd.Heap{}}
		if kernels != "none" {
			o.Kernels, o.Registry = kernels, core.NewRegistry()
			for _, k := range linked.Kernels() {
				if err := o.Registry.Register(k); err != nil {
					t.Fatal(err)
				}
			}
		}
		c.result, c.err = parity.Run(t.Context(), dir, o)
		compared[key] = c
	}
	return c.result, c.err
}

func check(t *testing.T, r *parity.Result) {
	t.Helper()
	for _, f := range r.Failures {
		t.Error(f)
	}
	t.Logf("%+v", *r)
}

// TestEveryKernelEqualsTheReference starts the plugins once for all models: that takes longer than to compare one.
func TestEveryKernelEqualsTheReference(t *testing.T) {
	for _, opts := range []transport.Options{{}, {Portable: true}} {
		reg := plugintest.Scan(t, opts)
		for _, dir := range cases(t) {
			t.Run(fmt.Sprintf("%s/portable=%v", filepath.Base(dir), opts.Portable), func(t *testing.T) {
				mem := plugintest.Memory(t)
				r, err := parity.Run(context.Background(), dir, parity.Options{Memory: mem, Registry: reg, Kernels: "all"})
				if err != nil {
					t.Fatal(err)
				}
				check(t, r)
				for _, k := range reg.Kernels() {
					h := k.(core.HealthReporter).Health()
					if h.Deaths+h.Fallbacks > 0 || h.Copies > 0 && !opts.Portable {
						t.Errorf("%s: %+v", k.Info().Name, h)
					}
				}
			})
		}
	}
}

// TestLinkedKernelsEqualTheReference has no other processes, so that an emulated processor
// computes all of it: a plugin that is started there runs on the real one.
func TestLinkedKernelsEqualTheReference(t *testing.T) {
	for _, name := range []string{"llama-tiny", "qwen3-moe", "glm4-0414"} {
		t.Run(name, func(t *testing.T) {
			dir := testdata.Shared(t, filepath.Join("golden", "models", name))
			r, err := withLinked(t, dir, "all")
			if err != nil {
				t.Fatal(err)
			}
			check(t, r)
		})
	}
}

// TestErrorsAreThoseOfFloat32: for each model and each kernel alone, the worst gradient is
// no more than a small multiple of what the published code in float32 differs from itself in
// float64, and so is the drift over the curve. The multiples are three times the largest
// that was seen. The models are ones whose curves are not chaotic; see docs/parity.md.
func TestErrorsAreThoseOfFloat32(t *testing.T) {
	const most = 5
	selections := []string{"none", "all"}
	for _, k := range linked.Kernels() {
		if name := k.Info().Name; !slices.Contains(selections, name) {
			selections = append(selections, name)
		}
	}
	for _, dir := range cases(t) {
		for _, kernels := range selections {
			t.Run(filepath.Base(dir)+"/"+kernels, func(t *testing.T) {
				r, err := withLinked(t, dir, kernels)
				if errors.Is(err, core.ErrNoSite) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				grad, curve := r.GradWorstRel/r.GradReference, r.CurveLossMaxAbs/r.CurveReference
				if !(grad <= most && curve <= most) {
					t.Errorf("%.1f times the reference's own error in the gradient of %s, %.1f times its drift; at most %d", grad,
						r.GradWorstTensor, curve, most)
				}
				t.Logf("gradients %.2f, curve %.2f", grad, curve)
			})
		}
	}
}

// TestEverySiteIsPatched counts the sites of each reference model by its architecture.
func TestEverySiteIsPatched(t *testing.T) {
	reg, mem := plugintest.Scan(t, transport.Options{}), plugintest.Memory(t)
	for _, dir := range cases(t) {
		m, err := models.Load(dir, mem)
		if err != nil {
			t.Fatal(err)
		}
		report, err := core.ApplyDefaultKernels(t.Context(), m, reg, "all")
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range report.Actions {
			if a.Kernel == nil && a.CoveredBy == "" {
				t.Errorf("%s: %s (%s) keeps its plain forward: %s", dir, a.Site.Path, a.Site.Op, a.Reason)
			}
		}
		t.Logf("%s: %d sites: %v", filepath.Base(dir), len(report.Actions), report.Applied())
		m.Free()
	}
}
