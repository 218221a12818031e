package models_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/gateup"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// compileWith compiles a training graph that computes layers again, all unless parts are given, or not.
func compileWith(t *testing.T, m *models.Model, checkpoint bool, parts ...string) *nn.Compiled {
	t.Helper()
	c, err := nn.NewContext(autograd.Heap{}, rows, length, length)
	if err != nil {
		t.Fatal(err)
	}
	c.Checkpoint, c.CheckpointParts = checkpoint, parts
	prog, err := m.Compile(c, m.Forward(c).Loss, false)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// gradients runs both passes and returns the loss and every gradient.
func gradients(t *testing.T, m *models.Model, checkpoint bool, parts ...string) []float32 {
	t.Helper()
	prog := compileWith(t, m, checkpoint, parts...)
	defer prog.Close()
	b := batch(rand.New(rand.NewPCG(5, 0)), m.Vocab())
	if err := prog.Batch.Fill(b, b.Targets()); err != nil {
		t.Fatal(err)
	}
	loss, err := prog.Forward(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := prog.Backward(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := []float32{float32(loss)}
	for _, p := range m.Params() {
		out = append(out, prog.Gradient(p)...)
	}
	return out
}

// inFloat32 are kernels that compute in float32, as the plugins do: the host computes the norm of a
// sum again itself, in float32, and the value of gate_up_swiglu, whose kernel is the project's,
// because an exponential has other last bits elsewhere.
func inFloat32(op core.Op) core.Kernel {
	if op == core.GateUpSwiGLU {
		return new(gateup.Kernel)
	}
	return reference.Single(op)
}

func TestCheckpointingChangesNoBit(t *testing.T) {
	for _, name := range types() {
		for _, selection := range []string{"none", "all"} {
			t.Run(name+" "+selection, func(t *testing.T) {
				m := newModel(t, family(name), 1)
				apply(t, m, selection, kernels(t, inFloat32))
				want := gradients(t, m, false)
				for _, parts := range [][]string{nil, {"layers.0"}, {"layers.1"}, {"layers.0.mlp"}, {"layers.1.self_attn"},
					{"layers.0.self_attn", "layers.1.mlp"}, {"layers.0.mlp", "layers.0.self_attn", "layers.1"}} {
					if !slices.Equal(gradients(t, m, true, parts...), want) {
						t.Errorf("parts %v: the loss or a gradient differs", parts)
					}
				}
			})
		}
	}
}

// TestCheckpointingHoldsOneLayerAndTheStream compares programs of 8 and 9 layers: the
// ninth adds its gradients either way, and all its activations, or only the residual
// stream between two layers.
func TestCheckpointingHoldsOneLayerAndTheStream(t *testing.T) {
	bytes := func(layers int, checkpoint bool) (program, gradients int) {
		m := newModel(t, family("llama", with("num_hidden_layers", layers)), 1)
		prog := compileWith(t, m, checkpoint)
		defer prog.Close()
		return prog.Bytes(), 4 * m.Elems()
	}
	more := func(checkpoint bool) int {
		p8, g8 := bytes(8, checkpoint)
		p9, g9 := bytes(9, checkpoint)
		return p9 - p8 - (g9 - g8)
	}
	const stream, rounding = rows * length * 12 * 4, 64 * 20 // of every buffer to a cache line
	if got := more(true); got > stream+rounding {
		t.Errorf("a layer more takes %d bytes besides its gradients, want the stream's %d", got, stream)
	}
	if got := more(false); got < 8*stream {
		t.Errorf("without checkpointing a layer more takes %d bytes besides its gradients; what is saved?", got)
	}
	with, _ := bytes(8, true)
	without, _ := bytes(8, false)
	t.Logf("8 layers: %d bytes, with checkpointing %d", without, with)
	if 3*with >= 2*without {
		t.Errorf("8 layers take %d bytes, with checkpointing %d", without, with)
	}
}

// TestEachLayerTakesLessMemory: with each layer more that is computed again a program is smaller, until the layers
// are not what is largest in it.
func TestEachLayerTakesLessMemory(t *testing.T) {
	const layers = 6
	m := newModel(t, family("llama", with("num_hidden_layers", layers)), 1)
	size := func(checkpoint bool, again ...string) int {
		prog := compileWith(t, m, checkpoint, again...)
		defer prog.Close()
		return prog.Bytes()
	}
	var first []string
	sizes := []int{size(false)}
	for n := range layers {
		first = append(first, nn.LayerPart(n, ""))
		sizes = append(sizes, size(true, first...))
	}
	t.Logf("bytes %v", sizes)
	all := size(true)
	for n, next := range sizes[1:] {
		if before := sizes[n]; next > before || next == before && next > all {
			t.Errorf("%d bytes with %d layers, %d with one less", next, n+1, before)
		}
	}
	if sizes[layers] != all || sizes[2] >= sizes[0]*9/10 {
		t.Errorf("bytes %v, with all layers %d", sizes, all)
	}
}

// TestEachPartIsComputedAgain: a program takes less memory with either part of the layers computed again, and less yet with
// both; and what the kernel of attention makes of all pairs of tokens is kept, unless whole layers are not.
func TestEachPartIsComputedAgain(t *testing.T) {
	const layers = 6
	for _, selection := range []string{"none", "all"} {
		m := newModel(t, family("llama", with("num_hidden_layers", layers)), 1)
		apply(t, m, selection, kernels(t, inFloat32))
		of := func(kinds ...string) (parts []string) {
			for n := range layers {
				for _, kind := range kinds {
					parts = append(parts, nn.LayerPart(n, kind))
				}
			}
			return parts
		}
		size := func(parts []string) int {
			prog := compileWith(t, m, parts != nil, parts...)
			defer prog.Close()
			again := false
			for _, s := range prog.Stats() {
				again = again || s.Again && s.Op == "attention"
			}
			if want := slices.Contains(parts, "layers.0") || selection == "none" && slices.Contains(parts, "layers.0.self_attn"); again != want {
				t.Errorf("%s, parts %v: attention is computed again: %t", selection, parts, again)
			}
			return prog.Bytes()
		}
		none, attention, block := size(nil), size(of(nn.AttentionPart)), size(of(nn.BlockPart))
		both, whole := size(of(nn.AttentionPart, nn.BlockPart)), size(of(""))
		t.Logf("%s: %d bytes, with attention %d, with MLPs %d, with both %d, with layers %d", selection, none, attention, block, both,
			whole)
		if attention >= none || block >= none || both >= attention || both >= block {
			t.Errorf("%s: a part spares nothing", selection)
		}
	}
}
