package models_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/internal/golden"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
)

// llamaAndPhi3 are one model twice: as llama's weights, and the same repacked for phi3.
func llamaAndPhi3(t *testing.T) (llama, phi3 *models.Model) {
	t.Helper()
	alike := []func(map[string]any){with("attention_bias", false), with("mlp_bias", false), with("sliding_window", nil), with("head_dim", 6),
		with("partial_rotary_factor", 1), with("rope_scaling", nil), with("rms_norm_eps", 1e-5), func(c map[string]any) { c["pad_token_id"] = nil }}
	llama = newModel(t, family("llama", alike...), 3)
	return llama, load(t, folder(t, family("phi3", alike...), golden.Packed(named(t, llama))))
}

// results runs both passes and returns the logits and, by name, every gradient.
func results(t *testing.T, m *models.Model) (logits []float32, grads []checkpoint.Named) {
	t.Helper()
	logits, _ = evaluate(t, m)
	prog := compile(t, m)
	defer prog.Close()
	b := batch(rand.New(rand.NewPCG(5, 0)), m.Vocab())
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
		grads = append(grads, checkpoint.Named{Name: p.Name, Tensor: core.FromFloat32(slices.Clone(prog.Gradient(p)), p.Tensor.Shape...)})
	}
	return logits, grads
}

// TestPhi3IsLlamaRepacked: every number of the forward pass is the same sum, and so to the
// bit the same. What flows back through a packed matrix is one sum where llama has two or
// three, so that gradients before the last of them are equal within rounding.
func TestPhi3IsLlamaRepacked(t *testing.T) {
	for _, selection := range []string{"none", "all"} {
		t.Run(selection, func(t *testing.T) {
			llama, phi3 := llamaAndPhi3(t)
			for _, m := range []*models.Model{llama, phi3} {
				apply(t, m, selection, kernels(t, reference.Single))
			}
			wantLogits, want := results(t, llama)
			gotLogits, got := results(t, phi3)
			if !slices.Equal(gotLogits, wantLogits) {
				t.Errorf("logits differ by %.3g", distance(gotLogits, wantLogits))
			}
			want = golden.Packed(want)
			if len(got) != len(want) {
				t.Fatalf("%d parameters, want %d", len(got), len(want))
			}
			last := []string{"model.norm.weight", "lm_head.weight", "model.layers.1.mlp.gate_up_proj.weight", "model.layers.1.mlp.down_proj.weight"}
			for _, w := range want {
				i := slices.IndexFunc(got, func(g checkpoint.Named) bool { return g.Name == w.Name })
				if i < 0 || !got[i].Tensor.Shape.Equal(w.Tensor.Shape) {
					t.Errorf("there is no %s, or it is not %v", w.Name, w.Tensor.Shape)
					continue
				}
				d := distance(got[i].Tensor.Float32s(), w.Tensor.Float32s())
				if limit := 0x1p-19; slices.Contains(last, w.Name) && d != 0 || !(d < limit) {
					t.Errorf("the gradient of %s differs by %.3g", w.Name, d)
				}
			}
			lw, lp := train(t, llama, 8), train(t, phi3, 8)
			if loss, _, _ := farthest(lw, lp, llama, llama); lw[0] != lp[0] || !(loss < 1e-5) {
				t.Errorf("losses %v, llama's %v", lp, lw)
			}
		})
	}
}

// TestPackedTensorsAreSavedAsTheyWere: names, order of rows, and bits.
func TestPackedTensorsAreSavedAsTheyWere(t *testing.T) {
	llama, phi3 := llamaAndPhi3(t)
	want, got := golden.Packed(named(t, llama)), named(t, phi3)
	for i, w := range want {
		if got[i].Name != w.Name || !slices.Equal(got[i].Tensor.Data, w.Tensor.Data) {
			t.Errorf("%s became %s, or other bits", w.Name, got[i].Name)
		}
	}
	if n := len(slices.DeleteFunc(got, func(n checkpoint.Named) bool { return !strings.Contains(n.Name, "qkv_proj") })); n != 2 || len(want) != len(named(t, phi3)) {
		t.Errorf("%d packed matrices of attention in two layers, %d tensors", n, len(want))
	}
}
