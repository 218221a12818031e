package nn

import (
	"maps"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
)

// recomputed makes the model's gate_up_swiglu compute again what it would save.
func recomputed(d *Decoder) *Decoder {
	for i, s := range d.sites {
		if s.Op == core.GateUpSwiGLU {
			s.Hook.(*site).facts.Recompute = true
			d.sites[i].Facts.Recompute = true
		}
	}
	return d
}

// TestLargerSitesTrainLikePlainOnes compares every gradient.
func TestLargerSitesTrainLikePlainOnes(t *testing.T) {
	for name, cfg := range map[string]DecoderConfig{
		"pre-norm": tiny(withQKNorm), "one layer": tiny(oneLayer), "packed MLP": tiny(withSandwich),
		"biases": tiny(withBiases), "shared expert": tiny(withSigmoids),
	} {
		for _, checkpoint := range []bool{false, true} {
			for _, recompute := range []bool{false, true} {
				d := newDecoder(t, cfg, 9)
				if recompute {
					recomputed(d)
				}
				if checkpoint {
					name += ", checkpoint"
				}
				t.Run(name, func(t *testing.T) {
					b := randomBatch(newRand(5), 2, 6, cfg.Vocab)
					want, plain := trained(t, newDecoder(t, cfg, 9), b, false)
					got, fused := trained(t, fuse(t, d, core.QKV, core.GateUpSwiGLU), b, checkpoint)
					near(t, "loss", []float32{float32(got)}, []float64{want}, 0x1p-20)
					for name, g := range fused {
						near(t, name, g, plain[name], 0x1p-16)
					}
				})
			}
		}
	}
}

// TestWhatALargerSiteCovers: the layers of one input and what lies between them, and what comes after is not.
func TestWhatALargerSiteCovers(t *testing.T) {
	want := map[string]string{}
	for _, layer := range []string{"q_proj", "k_proj", "v_proj"} {
		want["layers.0.self_attn."+layer] = "layers.0.self_attn.qkv"
	}
	for _, at := range []string{"layers.0.mlp", "layers.0.mlp.gate_proj", "layers.0.mlp.up_proj"} {
		want[at] = "layers.0.mlp.gate_up"
	}
	got := map[string]string{}
	for _, s := range newDecoder(t, tiny(oneLayer), 1).Sites() {
		if s.Within != "" && s.Op != core.RMSNorm && s.Path != "lm_head" {
			got[s.Path] = s.Within
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("sites within others %v, want %v", got, want)
	}
}

// TestNoProductIsComputedAgainForALargerSite: what swiglu is of is kept or, where the op computes it again, its value is.
func TestNoProductIsComputedAgainForALargerSite(t *testing.T) {
	b := randomBatch(newRand(5), 2, 6, tiny().Vocab)
	for _, cfg := range []DecoderConfig{tiny(), tiny(withSigmoids)} {
		kept := again(t, fuse(t, newDecoder(t, cfg, 9), core.QKV, core.GateUpSwiGLU), b)
		if kept["gate_up_swiglu"] != 2 || kept["linear"]+kept["qkv"] != 0 {
			t.Errorf("computed again: %v; want swiglu of both layers alone", kept)
		}
		whole := again(t, fuse(t, recomputed(newDecoder(t, cfg, 9)), core.QKV, core.GateUpSwiGLU), b)
		if whole["gate_up_swiglu"]+whole["linear"]+whole["qkv"] != 0 {
			t.Errorf("computed again outside of the op: %v", whole)
		}
	}
}

// TestLargerSitesNeedNoMoreMemory: a layer more needs as much as it does with smaller ops, and half of
// what swiglu is of less where the op computes that again.
func TestLargerSitesNeedNoMoreMemory(t *testing.T) {
	const rows, length, more, width = 4, 64, 5, 14
	small := []core.Op{core.Linear, core.SwiGLU, core.Attention}
	large := []core.Op{core.QKV, core.GateUpSwiGLU, core.Attention}
	for _, checkpoint := range []bool{false, true} {
		growth := func(change func(*Decoder) *Decoder, ops []core.Op) int {
			var bytes [2]int
			for i, layers := range []int{4, 4 + more} {
				d := change(newDecoder(t, tiny(func(cfg *DecoderConfig) { cfg.Layers = layers }), 1))
				c := newContext(t, rows, length)
				c.Checkpoint = checkpoint
				p, err := d.Compile(c, fuse(t, d, ops...).Forward(c).Loss, false)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				bytes[i] = p.Bytes()
			}
			return bytes[1] - bytes[0]
		}
		same := func(d *Decoder) *Decoder { return d }
		parts, whole, least := growth(same, small), growth(same, large), growth(recomputed, large)
		if whole > parts {
			t.Errorf("checkpoint %v: %d layers need %d bytes with larger ops, %d with smaller ones", checkpoint, more, whole, parts)
		}
		if half := more * rows * length * width * 4; !checkpoint && whole-least < half {
			t.Errorf("%d layers need %d bytes with gate and up kept, %d with them computed again, want %d less", more, whole, least, half)
		}
	}
}

// TestAdaptersLeaveALargerSitePlain, and its layers sites of their own.
func TestAdaptersLeaveALargerSitePlain(t *testing.T) {
	d := newDecoder(t, tiny(oneLayer), 1)
	at := func(path string) core.Site {
		return d.Sites()[slices.IndexFunc(d.Sites(), func(s core.Site) bool { return s.Path == path })]
	}
	target := d.Targets()[slices.IndexFunc(d.Targets(), func(t Target) bool { return t.Name == "model.layers.0.self_attn.q_proj" })]
	if err := at("layers.0.self_attn.qkv").Hook.Swap(counting(core.QKV)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Adapt(target, Adaptation{Rank: 2, Scale: 1}); err == nil {
		t.Error("a layer whose larger site has a kernel took an adapter")
	}
	if err := at("layers.0.self_attn.qkv").Hook.Swap(nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Adapt(target, Adaptation{Rank: 2, Scale: 1}); err != nil {
		t.Fatal(err)
	}
	if at("layers.0.self_attn.qkv").Plain == "" || at("layers.0.mlp.gate_up").Plain != "" {
		t.Errorf("plain: qkv %q, gate_up %q", at("layers.0.self_attn.qkv").Plain, at("layers.0.mlp.gate_up").Plain)
	}
}
