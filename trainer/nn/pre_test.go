package nn

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// oneEps gives the norms of heads the epsilon of the others.
func oneEps(cfg *DecoderConfig) { cfg.Attention.Eps = cfg.Eps }

// inInt8 builds a model of int8 layers that multiply int8 by int8, or float activations for no scaling.
func inInt8(t *testing.T, cfg DecoderConfig, scaling core.Scaling) *Decoder {
	t.Helper()
	return frozenAs(t, cfg, core.Int8, scaling)
}

// frozenAs builds a model whose linear layers have weights of that dtype.
func frozenAs(t *testing.T, cfg DecoderConfig, dtype core.DType, scaling core.Scaling) *Decoder {
	t.Helper()
	float := newDecoder(t, cfg, 4)
	b := NewBuilder(autograd.Heap{})
	b.Freeze(func(p *Param) core.DType {
		if strings.HasSuffix(p.Name, "_proj.weight") {
			return dtype
		}
		return core.Float32
	})
	b.Scale(func(path string) core.Scaling {
		if strings.HasSuffix(path, "_proj") {
			return scaling
		}
		return ""
	})
	d, err := NewDecoder(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range d.Params() {
		for _, e := range p.Entries {
			p.Set(e, e.View(float.Params()[i].Tensor))
		}
	}
	for _, l := range d.Linears() {
		if l.Scaling() == core.StaticScaling {
			if err := l.SetStatic(0.03, 3); err != nil {
				t.Fatal(err)
			}
		}
	}
	return d
}

// before puts counting kernels on the sites of attention_pre that a plan would give one.
func before(t *testing.T, d *Decoder) (kernels []*countingKernel) {
	t.Helper()
	for _, s := range d.ForInference().Sites() {
		if s.Op == core.AttentionPre && s.Plain == "" {
			if err := s.Facts.Validate(s.Op); err != nil {
				t.Fatal(err)
			}
			k := counting(s.Op)
			if err := s.Hook.Swap(k); err != nil {
				t.Fatal(err)
			}
			kernels = append(kernels, k)
		}
	}
	return kernels
}

// TestAKernelDoesAllBeforeAttention: the logits are those of the plain forward.
func TestAKernelDoesAllBeforeAttention(t *testing.T) {
	for name, d := range map[string]*Decoder{
		"plain":               newDecoder(t, tiny(), 4),
		"norms of heads":      newDecoder(t, tiny(withQKNorm, oneEps), 4),
		"biases":              newDecoder(t, tiny(withBiases), 4),
		"partial interleaved": newDecoder(t, tiny(withQKNorm, oneEps, partialInterleaved), 4),
		"sandwich":            newDecoder(t, tiny(withSandwich), 4),
		"experts":             newDecoder(t, tiny(withExperts(4, true)), 4),
		"a window":            newDecoder(t, tiny(withWindow(2)), 4),
		"weights in int8":     inInt8(t, tiny(withBiases), ""),
		"static":              inInt8(t, tiny(withBiases, withQKNorm, oneEps), core.StaticScaling),
		"dynamic":             inInt8(t, tiny(withBiases, partialInterleaved), core.DynamicScaling),
	} {
		t.Run(name, func(t *testing.T) {
			want := logits(t, d, 2, 5, nil)
			kernels := before(t, d)
			near(t, "logits", logits(t, d, 2, 5, nil), want, 0x1p-18)
			for i, k := range kernels {
				if k.forwards != 1 || k.rows != 10 {
					t.Errorf("kernel %d: %d calls, of %d tokens", i, k.forwards, k.rows)
				}
			}
			if len(kernels) != 2 {
				t.Errorf("%d kernels for two layers", len(kernels))
			}
		})
	}
}

// TestWhatTheSiteBeforeAttentionCovers, and that training does not have it.
func TestWhatTheSiteBeforeAttentionCovers(t *testing.T) {
	d := newDecoder(t, tiny(withQKNorm, oneEps), 1)
	got := map[string]string{}
	for _, s := range d.ForInference().Sites() {
		if strings.HasSuffix(s.Within, ".pre") {
			got[s.Path] = s.Within
		}
	}
	want := map[string]string{"layers.0.input_layernorm": "layers.0.self_attn.pre",
		"layers.1.input_layernorm.add": "layers.1.self_attn.pre"}
	for _, layer := range []string{"layers.0.self_attn.", "layers.1.self_attn."} {
		for _, name := range []string{"qkv", "q_norm", "k_norm", "rope"} {
			want[layer+name] = layer + "pre"
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("sites within %v, want %v", got, want)
	}
	for _, s := range d.Sites() {
		if s.Op == core.AttentionPre || strings.HasSuffix(s.Within, ".pre") {
			t.Errorf("training has the site %s, within %q", s.Path, s.Within)
		}
	}
}

// TestWhereNothingCanDoAllBeforeAttention: an op has three layers of one kind, and one epsilon.
func TestWhereNothingCanDoAllBeforeAttention(t *testing.T) {
	reasons := func(d *Decoder) (all []string) {
		for _, s := range d.ForInference().Sites() {
			if s.Op == core.AttentionPre {
				all = append(all, s.Plain)
			}
		}
		return all
	}
	for name, cfg := range map[string]DecoderConfig{"packed": tiny(packed), "two epsilons": tiny(withQKNorm)} {
		if got := reasons(newDecoder(t, cfg, 1)); got != nil {
			t.Errorf("%s: sites %q", name, got)
		}
	}
	static := inInt8(t, tiny(), core.StaticScaling)
	if err := static.Linears()[1].SetStatic(0.04, 3); err != nil {
		t.Fatal(err)
	}
	adapted := newDecoder(t, tiny(), 1)
	target := adapted.Targets()[slices.IndexFunc(adapted.Targets(), func(t Target) bool {
		return t.Name == "model.layers.0.self_attn.k_proj"
	})]
	if _, _, err := adapted.Adapt(target, Adaptation{Rank: 2, Scale: 1}); err != nil {
		t.Fatal(err)
	}
	for reason, d := range map[string]*Decoder{"several scales": static, "adapters": adapted} {
		if got := reasons(d); len(got) != 2 || !strings.Contains(got[0], reason) || got[1] != "" {
			t.Errorf("%s: %q", reason, got)
		}
	}
}

// TestSitesForInferenceSayWhatTheirWeightsAre, whatever these are stored in: a site that no kernel can take has a
// reason, and facts that no op has would end every plan.
func TestSitesForInferenceSayWhatTheirWeightsAre(t *testing.T) {
	for _, dtype := range []core.DType{core.Float32, core.BFloat16, core.Float16, core.Int8, core.NF4} {
		for name, cfg := range map[string]DecoderConfig{"dense": tiny(withBiases), "experts": tiny(withExperts(4, true))} {
			places := 0
			for _, s := range frozenAs(t, cfg, dtype, "").ForInference().Sites() {
				if s.Op == core.AttentionPre {
					places++
				}
				if err := s.Facts.Validate(s.Op); err != nil && s.Plain == "" {
					t.Errorf("%s, %s: site %s: %v", name, dtype, s.Path, err)
				}
			}
			if places != 2 {
				t.Errorf("%s, %s: %d sites of attention_pre for two layers", name, dtype, places)
			}
		}
	}
}
