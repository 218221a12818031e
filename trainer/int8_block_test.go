package trainer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
)

// int8Folder is a small model of a family whose layers have int8 weights and scales for each token.
func int8Folder(t *testing.T, family string) string {
	t.Helper()
	all := models.Families()
	i := slices.IndexFunc(all, func(f models.Family) bool { return f.Type == family })
	config := all[i].Small()
	config["model_type"], config["vocab_size"] = family, 64
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := quantized(t, folderOf(t, string(text)), trainer.W8A8Dynamic)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// evaluatedWith is the loss of a folder's model with the kernels that a selection places, and the sites that have the
// one of shared_expert_ffn. Once they are placed, it calls what follows.
func evaluatedWith(t *testing.T, dir string, reg *core.Registry, selection string,
	then ...func()) (loss float64, placed []string) {
	t.Helper()
	mem := plugintest.Memory(t)
	m, err := models.LoadWith(dir, mem, models.LoadOptions{Frozen: true})
	if err != nil {
		t.Fatal(err)
	}
	report, err := core.ApplyDefaultKernels(t.Context(), m, reg, selection, core.Inference())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range report.Actions {
		if a.Kernel != nil && a.Site.Op == core.SharedExpertFFN {
			placed = append(placed, a.Site.Path)
		}
	}
	for _, f := range then {
		f()
	}
	e, err := trainer.NewEvaluator(m, mem, 2, 16, 16, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	batches, _ := data.Stream(rows(t, 16), 2)
	if loss, _, err = e.Loss(t.Context(), batches); err != nil {
		t.Fatal(err)
	}
	return loss, placed
}

// TestAnMLPInInt8IsOneCall: the MLPs of a quantised model and the shared expert of a mixture have the plugin's kernel in
// place of four others, the same loss to the bit with it and without, and none of it where it is switched off.
func TestAnMLPInInt8IsOneCall(t *testing.T) {
	for family, want := range map[string][]string{
		"glm4_moe": {"layers.0.mlp.block", "layers.1.mlp.shared_experts.block"}, // gate and up are two layers
		"phi3":     {"layers.0.mlp.block", "layers.1.mlp.block"},                // they are one
	} {
		t.Run(family, func(t *testing.T) {
			dir, reg := int8Folder(t, family), plugintest.Scan(t, transport.Options{})
			plain, placed := evaluatedWith(t, dir, reg, "none")
			if placed != nil {
				t.Errorf("without kernels it is at %v", placed)
			}
			fused, placed := evaluatedWith(t, dir, reg, "npu_fused_shared_expert")
			if len(placed) < 2 || !slices.Equal(placed[:2], want) {
				t.Errorf("it is at %v, want %v first", placed, want)
			}
			if fused != plain {
				t.Errorf("the loss is %v, plain %v", fused, plain)
			}
			ks, err := reg.Lookup("npu_fused_shared_expert")
			if err != nil {
				t.Fatal(err)
			}
			if h := core.HealthOf(ks[0]); h.Calls == 0 || h.Copies+h.Fallbacks+h.Deaths != 0 {
				t.Errorf("health %+v", h)
			}
			if _, placed := evaluatedWith(t, dir, reg, "all"); len(placed) < 2 {
				t.Errorf("with all kernels it is at %v", placed)
			}
			if _, placed := evaluatedWith(t, dir, reg, "all,-npu_fused_shared_expert"); placed != nil {
				t.Errorf("switched off, it is at %v", placed)
			}
		})
	}
}

// TestAFailedMLPInInt8FallsBack: calls on which the plugin dies again and again are answered by the reference, which the
// plugin is too, and counted.
func TestAFailedMLPInInt8FallsBack(t *testing.T) {
	plugins, flag := t.TempDir(), filepath.Join(t.TempDir(), "go")
	plugintest.Compile(t, plugins, "./trainer/testdata/unlucky")
	t.Setenv("UNLUCKY", flag)
	dir := int8Folder(t, "glm4_moe")
	reg, err := core.ScanAllKernels(t.Context(), []string{plugins},
		transport.Options{CacheDir: "off", Env: []string{"UNLUCKY"}}.Open)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reg.Close() })
	want, placed := evaluatedWith(t, dir, reg, "unlucky")
	got, again := evaluatedWith(t, dir, reg, "unlucky", func() {
		if err := os.WriteFile(flag, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	h := core.HealthOf(reg.Kernels()[0])
	if got != want || len(placed) == 0 || !slices.Equal(placed, again) {
		t.Errorf("the loss is %v at %v, and %v at %v", want, placed, got, again)
	}
	if h.Deaths != 3 || h.Fallbacks == 0 {
		t.Errorf("health %+v; want three deaths on one call, then fall-backs", h)
	}
}
