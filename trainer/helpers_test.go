package trainer_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/plugins/builtin"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
)

// TestMain makes the test binary a program with built-in plugins, too.
func TestMain(m *testing.M) {
	builtin.Serve()
	plugintest.Main(m)
}

// tiny is a Qwen3 with a dense layer and one with experts, so that it has all four ops.
const tiny = `{"model_type": "qwen3_moe", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
	"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
	"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "mlp_only_layers": [0],
	"norm_topk_prob": true, "max_position_embeddings": 64, "initializer_range": 0.1}`

// run is one training run of the tiny model, ready to step.
type run struct {
	t       *testing.T
	model   *models.Model
	engine  *trainer.Engine
	loader  *data.Loader
	losses  []float64
	batches int // of a step
}

// newRun builds the model from seed 1 and lets patch put kernels into it.
func newRun(t *testing.T, mem core.Memory, patch func(*models.Model), change ...func(*trainer.EngineConfig)) *run {
	t.Helper()
	return newRunOf(t, tiny, mem, patch, change...)
}

// newRunOf is newRun of another model with as many tokens.
func newRunOf(t *testing.T, config string, mem core.Memory, patch func(*models.Model),
	change ...func(*trainer.EngineConfig)) *run {
	t.Helper()
	m, err := models.New([]byte(config), mem)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	if patch != nil {
		patch(m)
	}
	cfg := trainer.EngineConfig{Batch: 3, Seq: 17, Clip: 1, Optim: optim.DefaultConfig()}
	for _, f := range change {
		f(&cfg)
	}
	e, err := trainer.NewEngine(m, mem, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	loader, err := data.NewLoader(rows(t, cfg.Seq), cfg.Batch, 5)
	if err != nil {
		t.Fatal(err)
	}
	return &run{t: t, model: m, engine: e, loader: loader, batches: max(cfg.Accumulate, 1)}
}

func rows(t *testing.T, seq int) data.Slice {
	t.Helper()
	rng := rand.New(rand.NewPCG(9, 9))
	var docs [][]int32
	for range 40 {
		doc := make([]int32, 5+rng.IntN(30))
		for i := range doc {
			doc[i] = int32((i*7 + rng.IntN(9)) % 64)
		}
		docs = append(docs, doc)
	}
	rows, err := data.Pack(docs, seq, 0)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// steps runs n more steps.
func (r *run) steps(n int) *run {
	r.t.Helper()
	for range n {
		s, err := r.engine.Step(context.Background(), r.next(), 3e-3)
		if err != nil {
			r.t.Fatal(err)
		}
		r.losses = append(r.losses, s.Loss)
	}
	return r
}

// next deals the batches of a step.
func (r *run) next() (batches []data.Batch) {
	r.t.Helper()
	for range max(r.batches, 1) {
		batch, err := r.loader.Next()
		if err != nil {
			r.t.Fatal(err)
		}
		batches = append(batches, batch)
	}
	return batches
}

// parameters returns every final parameter.
func (r *run) parameters() [][]float32 {
	var out [][]float32
	for _, p := range r.model.Params() {
		out = append(out, slices.Clone(p.Tensor.Float32s()))
	}
	return out
}

// sameBits fails unless both runs have the same losses and parameters, to the bit.
func sameBits(t *testing.T, got, want *run) {
	t.Helper()
	if !slices.Equal(got.losses, want.losses) {
		t.Errorf("losses differ:\n got %v\nwant %v", got.losses, want.losses)
	}
	a, b := got.parameters(), want.parameters()
	for i := range a {
		if !slices.Equal(a[i], b[i]) {
			t.Errorf("parameter %s differs", got.model.Params()[i].Name)
		}
	}
}

// swigluByItself keeps kernels off gate_up_swiglu: there one would leave the plugin of swiglu nothing to do.
func swigluByItself(s core.Site) string {
	if s.Op == core.GateUpSwiGLU {
		return "swiglu is to have calls"
	}
	return ""
}

// all puts kernels of every plugin of the registry in place.
func all(t *testing.T, reg *core.Registry) func(*models.Model) {
	return placed(t, reg, core.Except(swigluByItself))
}

// placed puts in place all kernels that the options leave.
func placed(t *testing.T, reg *core.Registry, opts ...core.Option) func(*models.Model) {
	return func(m *models.Model) {
		t.Helper()
		report, err := core.ApplyDefaultKernels(t.Context(), m, reg, "all", opts...)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range report.Actions {
			if a.Kernel == nil && a.CoveredBy == "" && a.Reason != swigluByItself(a.Site) {
				t.Fatalf("%s keeps its plain forward: %s", a.Site.Path, a.Reason)
			}
		}
		reg.Rest(report.Actions) // as a run does: whoever is not called would not notice that its plugin was killed
	}
}
