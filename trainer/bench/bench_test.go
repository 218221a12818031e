package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/bench"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
)

const config = `{"model_type": "qwen3_moe", "vocab_size": 61, "hidden_size": 16, "intermediate_size": 24,
	"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
	"max_position_embeddings": 64, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
	"norm_topk_prob": true, "mlp_only_layers": [0]}`

// linked is a reference kernel under the name of a fused one.
type linked struct {
	core.Kernel
	name string
}

func (l *linked) Info() core.Info {
	i := l.Kernel.Info()
	i.Name = l.name
	return i
}

func registry(t *testing.T) *core.Registry {
	t.Helper()
	r := core.NewRegistry()
	for _, op := range core.Ops() {
		if err := r.Register(&linked{reference.Kernel(op), "fused_" + string(op)}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func options(t *testing.T, kernels ...string) bench.Options {
	return bench.Options{Config: trainer.Config{Batch: 2, Seq: 12, Threads: 2, Seed: 7}, ModelJSON: []byte(config),
		Steps:   3,
		Kernels: kernels, Registry: registry(t)}
}

func run(t *testing.T, o bench.Options) *bench.Result {
	t.Helper()
	r, err := bench.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVariantsTakeTurnsAndEveryOtherRoundGoesBackwards(t *testing.T) {
	o := options(t, "none", "all", "fused_rope")
	var got []string
	o.Progress = func(p bench.Progress) {
		if p.Rounds != 3 || p.Step <= 0 {
			t.Errorf("progress %+v", p)
		}
		if p.Round > 0 {
			got = append(got, p.Kernels)
		}
	}
	run(t, o)
	want := []string{"none", "all", "fused_rope", "fused_rope", "all", "none", "none", "all", "fused_rope"}
	if !slices.Equal(got, want) {
		t.Errorf("steps in the order %v, want %v", got, want)
	}
}

// counting counts the forward passes of a kernel.
type counting struct {
	core.Kernel
	calls int
}

func (k *counting) Forward(ctx context.Context, c *core.Call) error {
	k.calls++
	return k.Kernel.Forward(ctx, c)
}

// TestAStepThatCountsFollowsOneThatDoesNot: three of them, and the one that warms up, at two sites.
func TestAStepThatCountsFollowsOneThatDoesNot(t *testing.T) {
	k := &counting{Kernel: &linked{reference.Kernel(core.RoPE), "fused_rope"}}
	o := options(t, "fused_rope")
	o.Registry = core.NewRegistry()
	if err := o.Registry.Register(k); err != nil {
		t.Fatal(err)
	}
	r := run(t, o).Runs[0]
	if k.calls != 2*(1+2*3) || r.KernelCalls[0].Calls != 2*3 || len(r.Steps) != 3 {
		t.Errorf("%d calls, of which %d in %d steps count; want 14, 6 and 3", k.calls, r.KernelCalls[0].Calls, len(r.Steps))
	}
}

func TestVariantsTrainAlike(t *testing.T) {
	r := run(t, options(t, "none", "all"))
	plain, fused := r.Runs[0], r.Runs[1]
	if len(plain.Losses) != 3 || len(fused.Losses) != 3 {
		t.Fatalf("%d and %d losses, want one for each of 3 steps", len(plain.Losses), len(fused.Losses))
	}
	if plain.Losses[0] == plain.Losses[1] {
		t.Error("two steps have the same loss, to the bit: the batch is not renewed")
	}
	for i, want := range plain.Losses {
		// Some roundings of float32 around ln 61.
		if d := math.Abs(fused.Losses[i] - want); !(d <= 4.2*0x1p-20) {
			t.Errorf("step %d: losses %v and %v", i, want, fused.Losses[i])
		}
	}
}

// resting is a plugin that counts how often its process is ended.
type resting struct {
	kernel core.Kernel
	rests  int
}

func (r *resting) Manifest() core.Manifest {
	i := r.kernel.Info()
	return core.Manifest{Name: i.Name, Version: i.Version, Kernels: []core.Info{i}}
}
func (r *resting) Kernels() []core.Kernel { return []core.Kernel{r.kernel} }
func (r *resting) Close() error           { return nil }
func (r *resting) Rest()                  { r.rests++ }

// TestAVariantKeepsItsPlugins: to start one again would be part of a measured step.
func TestAVariantKeepsItsPlugins(t *testing.T) {
	p := &resting{kernel: &linked{reference.Kernel(core.SwiGLU), "fused"}}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fused"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	reg, err := core.ScanAllKernels(t.Context(), []string{dir}, func(context.Context, string) (core.Plugin,
		error) {
		return p, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, "all", "none")
	o.Registry = reg
	if r := run(t, o); r.Runs[0].KernelsApplied["fused"] == 0 || p.rests != 0 {
		t.Errorf("kernels %v; the plugin was stopped %d times while its variant was measured", r.Runs[0].KernelsApplied,
			p.rests)
	}
}

func TestSameSeedSameLosses(t *testing.T) {
	a, b := run(t, options(t, "all")), run(t, options(t, "none", "all"))
	if !slices.Equal(a.Runs[0].Losses, b.Runs[1].Losses) {
		t.Errorf("alone %v, beside another variant %v", a.Runs[0].Losses, b.Runs[1].Losses)
	}
	o := options(t, "all")
	o.Seed++
	if c := run(t, o); slices.Equal(a.Runs[0].Losses, c.Runs[0].Losses) {
		t.Error("another seed gives the same losses")
	}
}

func TestAModelFolderIsMeasuredWithItsOwnWeights(t *testing.T) {
	m, err := models.New([]byte(config), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, "none", "all")
	m.Init(o.Seed)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), m.RawConfig, 0o666); err != nil {
		t.Fatal(err)
	}
	tensors, err := m.Named()
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(filepath.Join(dir, checkpoint.SingleFile), tensors, nil); err != nil {
		t.Fatal(err)
	}
	random := run(t, o)
	o.Model, o.ModelJSON = dir, nil
	loaded := run(t, o)
	for i, v := range loaded.Runs {
		if !slices.Equal(v.Losses, random.Runs[i].Losses) {
			t.Errorf("%s: losses %v, with the same weights drawn at random %v", v.Kernels, v.Losses, random.Runs[i].Losses)
		}
	}
	if loaded.Config.Model != dir || random.Config.Model != "" {
		t.Errorf("the results name the folders %q and %q", loaded.Config.Model, random.Config.Model)
	}
}

func TestCallsAreCountedForEachKernelAndPass(t *testing.T) {
	r := run(t, options(t, "none", "all"))
	plain, fused := r.Runs[0], r.Runs[1]
	if len(plain.KernelCalls) != 0 || len(plain.KernelsApplied) != 0 {
		t.Errorf("without kernels: calls %v, applied %v", plain.KernelCalls, plain.KernelsApplied)
	}
	// Two layers, the first dense: two norms each, two more of heads, and the last one. Those
	// of the residual stream but for the first are of sums.
	sites := map[string]int{"fused_rms_norm": 5, "fused_add_rms_norm": 4, "fused_rope": 2, "fused_qkv": 2,
		"fused_gate_up_swiglu": 1, "fused_moe_gate": 1, "fused_moe_experts": 1, "fused_attention": 2,
		"fused_linear_cross_entropy": 1}
	calls := map[string]int{}
	for _, c := range fused.KernelCalls {
		calls[c.Kernel+" "+c.Pass] = c.Calls
		if c.MS <= 0 {
			t.Errorf("%+v took no time", c)
		}
	}
	for name, n := range sites {
		if fused.KernelsApplied[name] != n {
			t.Errorf("%s is at %d sites, want %d", name, fused.KernelsApplied[name], n)
		}
		for _, pass := range []string{" forward", " backward"} {
			want := 3 * n // the warm-up is not counted
			if name == "fused_linear_cross_entropy" && pass == " backward" {
				want = 0 // the loss and its gradients are one call
			}
			if calls[name+pass] != want {
				t.Errorf("%s%s: %d calls in 3 steps, want %d", name, pass, calls[name+pass], want)
			}
		}
	}
	i := slices.IndexFunc(fused.PlainCalls, func(c bench.Call) bool {
		return c.Op == "embedding" &&
			c.Pass == "backward"
	})
	if i < 0 || fused.PlainCalls[i].Calls != 3 {
		t.Errorf("plain calls %v lack three backwards of the embedding", fused.PlainCalls)
	}
}

func TestMemoryIsThatOfTheVariant(t *testing.T) {
	r := run(t, options(t, "none", "all"))
	for _, v := range r.Runs {
		m := v.Memory
		params := int64(4 * r.Config.Parameters)
		if m.Parameters != params || m.Optimizer != 2*params || m.Program < params ||
			m.Total != m.Parameters+m.Optimizer+m.Program {
			t.Errorf("%s: %+v with %d bytes of parameters, whose gradients the program holds", v.Kernels, m, params)
		}
		if v.PeakRSS != 0 && v.PeakRSS < m.Total {
			t.Errorf("%s: a peak of %d bytes, less than the %d planned", v.Kernels, v.PeakRSS, m.Total)
		}
	}
	if plain, fused := r.Runs[0].Memory.Program, r.Runs[1].Memory.Program; plain <= fused {
		t.Errorf("activations and gradients take %d bytes plain and %d fused; fused saves fewer of them", plain, fused)
	}
}

func TestResultHasTheKeysOfTheFormat(t *testing.T) {
	text, err := json.Marshal(run(t, options(t, "none", "all")))
	if err != nil {
		t.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	keys(t, "result", r, "machine", "config", "floor", "runs")
	keys(t, "floor", r["floor"], "product_flops", "optimizer_bytes", "product_flop_per_s", "bandwidth_bytes_per_s", "ms")
	keys(t, "machine", r["machine"], "cpu", "cores", "os", "arch", "go", "ceilings")
	keys(t, "config", r["config"], "batch", "seq", "steps", "seed", "model_type", "parameters", "model_config",
		"gradient_checkpointing", "precision",
		"trained", "grad_accum", "weight_decay", "clip")
	for _, v := range r["runs"].([]any) {
		keys(t, "run", v, "kernels", "threads", "step_ms", "forward_ms", "backward_ms", "optimizer_ms", "tokens_per_s",
			"peak_rss_bytes", "memory_bytes", "losses", "kernel_calls", "kernels_applied", "plain_calls", "fallbacks",
			"speedup",
			"speedup_interval", "steps", "update", "boundary", "products", "step_over_floor")
		for _, name := range []string{"step_ms", "forward_ms", "backward_ms", "optimizer_ms", "speedup"} {
			s := v.(map[string]any)[name]
			keys(t, name, s, "median", "p10", "p90")
			if m := s.(map[string]any); m["p10"].(float64) > m["median"].(float64) ||
				m["median"].(float64) > m["p90"].(float64) || m["p10"].(float64) <= 0 {
				t.Errorf("%s: %v", name, m)
			}
		}
		for _, c := range v.(map[string]any)["kernel_calls"].([]any) {
			keys(t, "kernel call", c, "op", "kernel", "pass", "calls", "ms", "work", "of_ceiling")
			keys(t, "work", c.(map[string]any)["work"], "bytes", "product_flops", "elementwise_flops")
		}
	}
}

func keys(t *testing.T, what string, object any, want ...string) {
	t.Helper()
	m, _ := object.(map[string]any)
	for _, k := range want {
		if _, ok := m[k]; !ok {
			t.Errorf("%s lacks %q", what, k)
		}
	}
	if len(m) != len(want) {
		t.Errorf("%s has %d keys, want %v: %v", what, len(m), want, m)
	}
}

func TestRunRefusesWhatItCannotMeasure(t *testing.T) {
	tests := []struct {
		name   string
		change func(*bench.Options)
		want   string
	}{
		{"no rows", func(o *bench.Options) { o.Batch = -1 }, "trainer.Config.Batch is -1"},
		{"nothing to predict", func(o *bench.Options) { o.Seq = 1 }, "trainer.Config.Seq is 1"},
		{"no steps", func(o *bench.Options) { o.Steps = 0 }, "0 steps"},
		{"no variants", func(o *bench.Options) { o.Kernels = nil }, "no variants"},
		{"one variant twice", func(o *bench.Options) { o.Kernels = []string{"all", "all"} }, "all is named twice"},
		{"no model", func(o *bench.Options) { o.ModelJSON = nil }, "neither a model folder nor a config.json"},
		{"rows longer than the model takes", func(o *bench.Options) { o.Seq = 65 }, "max_position_embeddings is 64"},
		{"unknown kernel", func(o *bench.Options) { o.Kernels = []string{"none", "fused_rop"} },
			"variant fused_rop: core: unknown kernel"},
		{"folder without a model", func(o *bench.Options) { o.Model = t.TempDir() }, "no config.json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options(t, "none")
			tt.change(&o)
			if _, err := bench.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := options(t, "none", "all")
	steps := 0
	o.Progress = func(bench.Progress) {
		if steps++; steps == 3 {
			cancel()
		}
	}
	if _, err := bench.Run(ctx, o); !errors.Is(err, context.Canceled) || steps != 3 {
		t.Errorf("after %d steps: %v", steps, err)
	}
}

// frees counts what was allocated and not given back.
type frees struct{ live int }

func (f *frees) Alloc(n int) ([]byte, error) {
	f.live++
	return core.NewTensor(core.Int64, (n+7)/8).Data[:n], nil
}
func (f *frees) Free([]byte) { f.live-- }

func TestRunGivesItsMemoryBack(t *testing.T) {
	for _, kernels := range []string{"all", "fused_rope,nobody"} {
		mem := &frees{}
		o := options(t, "none", kernels)
		o.Memory = mem
		if _, err := bench.Run(t.Context(), o); (err != nil) != (kernels != "all") {
			t.Fatal(err)
		}
		if mem.live != 0 {
			t.Errorf("%s: %d allocations are left", kernels, mem.live)
		}
	}
}
