package nn

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer/autograd"
)

// countingKernel is the reference, and counts.
type countingKernel struct {
	core.Kernel
	rows, forwards, backwards int // rows of the first input
	fail                      error
}

func (k *countingKernel) Forward(ctx context.Context, c *core.Call) error {
	k.rows, k.forwards = c.In[0].Shape[0], k.forwards+1
	if k.fail != nil {
		return k.fail
	}
	return k.Kernel.Forward(ctx, c)
}

func (k *countingKernel) Backward(ctx context.Context, c *core.Call) error {
	k.backwards++
	return k.Kernel.Backward(ctx, c)
}

func counting(op core.Op) *countingKernel { return &countingKernel{Kernel: reference.Kernel(op)} }

// restingKernel is the reference, and knows the shortest time between two of its calls.
type restingKernel struct {
	core.Kernel
	last     time.Time
	shortest time.Duration
}

func (k *restingKernel) called() func() {
	if rest := time.Since(k.last); !k.last.IsZero() {
		k.shortest = min(k.shortest, rest)
	}
	return func() { k.last = time.Now() }
}

func (k *restingKernel) Forward(ctx context.Context, c *core.Call) error {
	defer k.called()()
	return k.Kernel.Forward(ctx, c)
}

func (k *restingKernel) Backward(ctx context.Context, c *core.Call) error {
	defer k.called()()
	return k.Kernel.Backward(ctx, c)
}

// TestAProbedKernelRestsBetweenCalls, as it does in a run, where its process has gone to sleep.
func TestAProbedKernelRestsBetweenCalls(t *testing.T) {
	for _, inference := range []bool{false, true} {
		k := &restingKernel{Kernel: reference.Kernel(core.RMSNorm), shortest: time.Hour}
		p, err := NewProbe(autograd.Heap{}, probedSites(t)["norm"], k, 2, 7, 7, inference)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for range 3 {
			if _, _, err := p.Run(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		if k.shortest < rest {
			t.Errorf("inference %v: called again after %v", inference, k.shortest)
		}
	}
}

// probedSites are uses of every op, by the path of their site.
func probedSites(t *testing.T) map[string]core.Site {
	t.Helper()
	b := NewBuilder(autograd.Heap{})
	NewRMSNorm(b, "norm", "norm", 24, 1e-6)
	newNorm(b, "second", "second", normKind{24, 1e-6, 0}, true)
	NewAttention(b, "attn", "attn", AttentionConfig{Hidden: 24, Heads: 4, KVHeads: 2, HeadDim: 6, QKNorm: true, Eps: 1e-6,
		Rope: &RopeTable{InvFreq: []float64{1, 0.1}, Scale: 1}, Pairing: core.Half})
	cfg := tiny(withQKNorm, oneEps)
	cfg.Norms = cfg.Norms.orLlamas()
	newDecoderLayer(b, 1, &cfg)
	NewMLP(b, "mlp", "mlp", 24, 40, false)
	NewPackedMLP(b, "packed", "packed", 24, 40)
	NewMoE(b, "moe", "moe", MoEConfig{Hidden: 24, Intermediate: 10, Router: RouterConfig{Experts: 5, TopK: 2}})
	NewRouter(b, "router", "router", 24, RouterConfig{Experts: 8, TopK: 2, Sigmoid: true, Bias: true, Groups: 4,
		TopGroups: 2, Normalize: true, Scale: 2.5})
	if b.Err() != nil {
		t.Fatal(b.Err())
	}
	sites := map[string]core.Site{}
	for _, s := range b.sites {
		sites[s.Path] = s
	}
	return sites
}

// TestProbeRunsTheSameWorkBothWays: the program with a kernel has the loss and the
// gradients of the plain one, which it can only have if it is the same computation.
func TestProbeRunsTheSameWorkBothWays(t *testing.T) {
	const b, s = 2, 7
	rows := map[string]int{"norm": b * s, "attn.q_norm": 4 * b * s, "attn.k_norm": 2 * b * s, "attn.rope": b * s,
		"mlp": b * s, "packed": b * s, "moe.experts": b * s,
		"attn.qkv": b * s, "mlp.gate_up": b * s, "packed.gate_up": b * s,
		"second.add": b * s, "moe.gate": b * s, "router": b * s}
	sites := probedSites(t)
	for path, want := range rows {
		t.Run(path, func(t *testing.T) {
			site := sites[path]
			k := counting(site.Op)
			p, err := NewProbe(autograd.Heap{}, site, k, b, s, s, false)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for _, fused := range []bool{false, true, false, true} {
				op, neighbours, err := p.Run(t.Context(), fused)
				if err != nil || op <= 0 || neighbours <= 0 {
					t.Fatalf("fused %v: took %v and %v, %v", fused, op, neighbours, err)
				}
			}
			if k.rows != want || k.forwards != 2 || k.backwards != 2 {
				t.Errorf("%d rows, %d forwards, %d backwards, want %d, 2 and 2", k.rows, k.forwards, k.backwards, want)
			}
			if got := RowsPerToken(site); got*b*s != want {
				t.Errorf("%d rows per token, want %d", got, want/b/s)
			}
			samePrograms(t, p)
			if site.Hook.Kernel() != nil {
				t.Error("the model's own site was swapped")
			}
		})
	}
}

// TestProbeForInferenceHasNoBackwardPass, so that a kernel without one can be measured.
func TestProbeForInferenceHasNoBackwardPass(t *testing.T) {
	for _, path := range []string{"norm", "attn.rope", "mlp", "attn.qkv", "mlp.gate_up", "layers.1.self_attn.pre"} {
		site := probedSites(t)[path]
		k := counting(site.Op)
		p, err := NewProbe(autograd.Heap{}, site, k, 1, 1, 8, true)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if _, _, err := p.Run(t.Context(), true); err != nil || k.forwards != 1 || k.backwards != 0 {
			t.Errorf("%s: %d forwards and %d backwards, %v", path, k.forwards, k.backwards, err)
		}
		if got := p.Bytes(true); got <= 0 {
			t.Errorf("%s: %d bytes", path, got)
		}
	}
}

// TestProbeOfABlockInInt8 in either layout runs the kernel, and the same plainly.
func TestProbeOfABlockInInt8(t *testing.T) {
	for name, build := range map[string]func(*Builder) *MLP{
		"block":  func(b *Builder) *MLP { return NewMLP(b, "mlp", "mlp", 24, 40, false) },
		"packed": func(b *Builder) *MLP { return NewPackedMLP(b, "mlp", "mlp", 24, 40) },
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBuilder(autograd.Heap{})
			b.Freeze(func(*Param) core.DType { return core.Int8 })
			b.Scale(func(string) core.Scaling { return core.DynamicScaling })
			m := build(b)
			if b.Err() != nil {
				t.Fatal(b.Err())
			}
			k, mem := counting(core.SharedExpertFFN), &scarce{left: 1 << 10}
			p, err := NewProbe(mem, *siteOf(b.sites, m.block), k, 1, 8, 8, true)
			if err != nil {
				t.Fatal(err)
			}
			for _, fused := range []bool{false, true} {
				if _, _, err := p.Run(t.Context(), fused); err != nil {
					t.Fatal(err)
				}
			}
			if k.rows != 8 || k.forwards != 1 {
				t.Errorf("%d calls of %d rows", k.forwards, k.rows)
			}
			if p.Close(); mem.taken != 0 {
				t.Errorf("%d blocks of memory are left when it is closed, such as the scales of weights", mem.taken)
			}
		})
	}
}

// TestABlockInInt8NeedsAllItsLayers: with one that is not int8, or has a scale for all tokens, the site is not there.
func TestABlockInInt8NeedsAllItsLayers(t *testing.T) {
	for _, other := range []core.Scaling{core.StaticScaling, ""} {
		b := NewBuilder(autograd.Heap{})
		b.Freeze(func(p *Param) core.DType {
			if other == "" && p.Name == "mlp.down_proj.weight" {
				return core.Float32
			}
			return core.Int8
		})
		b.Scale(func(path string) core.Scaling {
			if path == "mlp.down_proj" {
				return other
			}
			return core.DynamicScaling
		})
		m := NewMLP(b, "mlp", "mlp", 24, 40, false)
		if b.Err() != nil || m.block != nil || m.gateUp == nil {
			t.Errorf("down_proj with scaling %q: %v, block %v", other, b.Err(), m.block)
		}
	}
}

func samePrograms(t *testing.T, p *Probe) {
	t.Helper()
	var losses [2]float64
	for i, program := range []*autograd.Program{p.plain, p.fused} {
		var err error
		if losses[i], err = program.Forward(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := program.Backward(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	near(t, "loss", []float32{float32(losses[1])}, []float64{losses[0]}, 1e-4)
	if len(p.inputs.leaves[0]) == 0 {
		t.Fatal("no gradients")
	}
	for i, leaf := range p.inputs.leaves[0] {
		near(t, "gradient", p.fused.Grad(p.inputs.leaves[1][i]).Float32s(), p.plain.Grad(leaf).Float32s(), 1e-4)
	}
}

func TestProbeBytesLeaveTheWeightsOut(t *testing.T) {
	site := probedSites(t)["moe.experts"]
	p, err := NewProbe(autograd.Heap{}, site, counting(site.Op), 1, 8, 8, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, fused := range []bool{false, true} {
		if got, all := p.Bytes(fused), p.program(fused).Bytes(); got <= 0 || all-got < 4*5*30*24 {
			t.Errorf("fused %v: %d of %d bytes, want those of the experts' gradients less", fused, got, all)
		}
	}
}

func TestProbeReportsTheKernelsError(t *testing.T) {
	site := probedSites(t)["mlp"]
	k := counting(site.Op)
	k.fail = errors.New("out of order")
	p, err := NewProbe(autograd.Heap{}, site, k, 1, 4, 4, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, _, err := p.Run(t.Context(), true); !errors.Is(err, k.fail) {
		t.Errorf("error %v, want the kernel's", err)
	}
}

func TestProbeRefusesWhatItCannotBuild(t *testing.T) {
	sites := probedSites(t)
	k := counting(core.SwiGLU)
	foreign := sites["mlp"]
	foreign.Hook = nil
	unknown := sites["mlp"]
	unknown.Op = "convolution"
	for name, site := range map[string]core.Site{"a site of another package": foreign,
		"an op that no module uses": unknown} {
		if _, err := NewProbe(autograd.Heap{}, site, k, 1, 4, 4, false); err == nil ||
			!strings.Contains(err.Error(), "mlp") {
			t.Errorf("%s: error %v, want one that names the site", name, err)
		}
	}
	if _, err := NewProbe(autograd.Heap{}, sites["mlp"], k, 0, 4, 4, false); err == nil {
		t.Error("a batch without rows was accepted")
	}
}

// TestEverySiteOfAModelCanBeMeasured holds for ops to come: a module that offers a site has
// a function in probers.
func TestEverySiteOfAModelCanBeMeasured(t *testing.T) {
	for name, cfg := range map[string]DecoderConfig{"dense": tiny(withQKNorm), "experts": tiny(withExperts(2, true)),
		"sigmoids": tiny(withSigmoids)} {
		for _, site := range newDecoder(t, cfg, 1).Sites() {
			p, err := NewProbe(autograd.Heap{}, site, counting(site.Op), 1, 4, 4, false)
			if err != nil {
				t.Errorf("%s, %s: %v: add a function to probers", name, site.Op, err)
				continue
			}
			p.Close()
		}
	}
}
