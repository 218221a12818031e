package trainer_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/preference"
)

// pairsOf are the same eight pairs with each prompt once or twice, in rows of their own or all in one.
func pairsOf(t *testing.T, once, apart, marked bool) data.Slice {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	store := data.NewStore()
	var all []int
	for i := range 8 {
		prompt := make([]int32, 2+rng.IntN(7))
		for k := range prompt {
			prompt[k] = rng.Int32N(64)
		}
		answer := func(role data.Role) data.Part {
			p := data.Part{Role: role}
			for k := range len(prompt) + 2 + rng.IntN(6) {
				if k < len(prompt) {
					p.IDs, p.Learn = append(p.IDs, prompt[k]), append(p.Learn, false)
				} else {
					p.IDs, p.Learn = append(p.IDs, rng.Int32N(64)), append(p.Learn, true)
				}
			}
			return p
		}
		a, b := answer(data.Chosen), answer(data.Rejected)
		if marked {
			a.Role, b.Role = []data.Role{data.Chosen, data.Rejected}[i%2], data.Mismatched
		}
		common := 0
		if once {
			common = data.Common(a, b)
		}
		if err := store.AddPair(a, b, common); err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	seq := 240
	if apart {
		seq = 32
	}
	packed, err := data.NewPacked(store, seq, 0)
	if err != nil {
		t.Fatal(err)
	}
	lay := packed.BestFit
	if apart {
		lay = packed.Single
	}
	lay(all)
	var rows data.Slice
	for i := range packed.Len() {
		row, err := packed.Row(i)
		if err != nil {
			t.Fatal(err)
		}
		if (row.Forks != nil) != once {
			t.Fatalf("prompts once %v: a row has forks %v", once, row.Forks)
		}
		rows = append(rows, row)
	}
	return rows
}

// preferred is what a step on all pairs computes.
type preferred struct {
	trainer.StepResult
	model     *models.Model
	gradients map[string][]float32
}

// setting is a way to train.
type setting struct {
	config  string // of the model
	lora    bool   // adapters that have been trained before, the reference being the model without them
	patch   func(*models.Model)
	memory  core.Memory
	apart   bool
	apply   func(*trainer.EngineConfig)
	refRows data.Slice // what the reference has seen before, if anything
}

// prefer steps once on the rows, changing nothing.
func (s setting) prefer(t *testing.T, c preference.Config, rows data.Slice) preferred {
	t.Helper()
	o := models.LoadOptions{Seed: 2}
	if s.lora {
		o.LoRA = lora.Config{Rank: 2, Targets: []string{lora.AllLinear}}
	}
	m, err := models.NewWith([]byte(s.config), s.memory, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	m.Init(1)
	rng := rand.New(rand.NewPCG(1, 1))
	for _, p := range m.Trainable() {
		if strings.Contains(p.Name, "lora_B") {
			for i := range p.Tensor.Float32s() {
				p.Tensor.Float32s()[i] = 0.2 * (rng.Float32() - 0.5)
			}
			p.Changed()
		}
	}
	if s.patch != nil {
		s.patch(m)
	}
	cfg := trainer.EngineConfig{Batch: len(rows), Seq: len(rows[0].IDs), Optim: optim.DefaultConfig(), Preference: c, Trained: s.lora}
	if s.apply != nil {
		s.apply(&cfg)
	}
	e, err := trainer.NewEngine(m, s.memory, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, seen := range []data.Slice{s.refRows, rows} {
		n, err := e.Refer(t.Context(), seen)
		if err != nil {
			t.Fatal(err)
		}
		if s.refRows != nil && seen[0].Forks != nil && n != 0 {
			t.Errorf("the reference has seen every answer, and computes %d batches", n)
		}
	}
	got := preferred{model: m, gradients: map[string][]float32{}}
	for batch := range data.Batches(rows, len(rows)) {
		if got.StepResult, err = e.Step(t.Context(), []data.Batch{batch}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range m.Trainable() {
		got.gradients[p.Name] = append([]float32(nil), e.Program().Gradient(p)...)
	}
	return got
}

// rounding is how far the results of two layouts may lie apart, relative to the largest element: that of float32 in sums of
// some hundred terms, which are added up in another order, layer after layer. Most are within 1e-6.
const rounding = 1e-5

// same compares losses, what is told, and every gradient.
func (p preferred) same(t *testing.T, want preferred) {
	t.Helper()
	near := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= rounding*(1+math.Abs(want))) {
			t.Errorf("%s %.9g, want %.9g", what, got, want)
		}
	}
	near("loss", p.Loss, want.Loss)
	for name, v := range want.Metrics.Named() {
		near(name, p.Metrics.Named()[name], v)
	}
	if p.Targets != want.Targets || len(p.gradients) != len(want.gradients) {
		t.Fatalf("%d targets and %d gradients, want %d and %d", p.Targets, len(p.gradients), want.Targets, len(want.gradients))
	}
	worst, some := 0.0, 0
	for name, w := range want.gradients {
		scale, off := 0.0, 0.0
		for i, v := range w {
			scale, off = max(scale, math.Abs(float64(v))), max(off, math.Abs(float64(v-p.gradients[name][i])))
		}
		if scale > 0 {
			some, worst = some+1, max(worst, off/scale)
		}
		if !(off <= rounding*scale) {
			t.Errorf("the gradient of %s differs by %.2g, its largest element is %.2g", name, off, scale)
		}
	}
	if some < len(want.gradients)/2 {
		t.Errorf("%d of %d gradients are not zero", some, len(want.gradients))
	}
	t.Logf("loss %.6f, gradients within %.2g", p.Loss, worst)
}

const (
	llamaOf = `{"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
		"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.1}`
	slidingOf = `{"model_type": "mistral", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
		"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.1,
		"sliding_window": 20}`
)

// TestAPromptThatIsThereOnceChangesNothing: training computes the same of a pair whether its prompt stands in the row once or
// twice, but for rounding.
func TestAPromptThatIsThereOnceChangesNothing(t *testing.T) {
	mem, reg := plugintest.Memory(t), plugintest.Scan(t, transport.Options{})
	kernels := func(m *models.Model) {
		report, err := core.ApplyDefaultKernels(t.Context(), m, reg, "all")
		if err != nil {
			t.Error(err)
			return
		}
		for _, a := range report.Actions {
			if a.Site.Op == core.Attention && a.Kernel == nil {
				t.Errorf("%s has no kernel: %s", a.Site.Path, a.Reason)
			}
		}
		reg.Rest(report.Actions)
	}
	for _, model := range []struct{ name, config string }{{"llama", llamaOf}, {"sliding", slidingOf}, {"experts", tiny}} {
		for i, c := range []preference.Config{{Stage: preference.DPO}, {Stage: preference.DPO, Loss: preference.IPO, FTX: 0.2},
			{Stage: preference.DPO, Loss: preference.Hinge}, {Stage: preference.ORPO}, {Stage: preference.SimPO},
			{Stage: preference.KTO}} {
			if i > 0 && model.name != "llama" {
				break
			}
			c.Beta, c.Gamma, c.ChosenWeight, c.RejectedWeight = 0.3, 0.5, 1, 0.8
			for _, s := range []setting{{}, {lora: true, apart: true}, {patch: kernels}, {patch: kernels, lora: true, apart: true}} {
				name := fmt.Sprintf("%s, %s %s, adapters %v, kernels %v, a row each %v", model.name, c.Stage, c.Loss, s.lora,
					s.patch != nil, s.apart)
				t.Run(name, func(t *testing.T) {
					s.config, s.memory = model.config, mem
					twice := pairsOf(t, false, s.apart, c.Marked())
					want := s.prefer(t, c, twice)
					s.prefer(t, c, pairsOf(t, true, s.apart, c.Marked())).same(t, want)
				})
			}
		}
	}
}

// TestAForkedRowGoesWithEverythingElse: with layers computed again, with rows of several lengths, and with a reference that
// has seen the answers in rows that have the prompt twice.
func TestAForkedRowGoesWithEverythingElse(t *testing.T) {
	c := preference.Config{Stage: preference.DPO, Beta: 0.3}
	for name, change := range map[string]func(s *setting){
		"checkpoints": func(s *setting) {
			s.apply = func(c *trainer.EngineConfig) { c.GradientCheckpointing = true }
		},
		"lengths": func(s *setting) {
			s.apart = true
			s.apply = func(c *trainer.EngineConfig) { c.Lengths = []int{8, 16, 24} }
		},
		"the reference of others": func(s *setting) { s.lora, s.refRows = true, pairsOf(t, false, false, false) },
	} {
		t.Run(name, func(t *testing.T) {
			s := setting{config: llamaOf, memory: plugintest.Memory(t)}
			change(&s)
			want := s
			want.refRows, want.apply = nil, nil
			s.prefer(t, c, pairsOf(t, true, s.apart, false)).same(t, want.prefer(t, c, pairsOf(t, false, s.apart, false)))
		})
	}
}

// TestARowOfAPromptThatIsThereOnceIsShorter: what is spared is computed nowhere.
func TestARowOfAPromptThatIsThereOnceIsShorter(t *testing.T) {
	once, twice := pairsOf(t, true, false, false), pairsOf(t, false, false, false)
	used := func(rows data.Slice) int {
		n, err := data.Length(rows, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if a, b := used(once), used(twice); a >= b {
		t.Errorf("%d tokens with each prompt once, %d with it twice", a, b)
	}
}

// TestALayerThatSeesLessThanAForkIsRefused: a window of fewer tokens than an answer with its prompt is no range then.
func TestALayerThatSeesLessThanAForkIsRefused(t *testing.T) {
	m, err := models.New([]byte(strings.Replace(slidingOf, "20", "6", 1)), plugintest.Memory(t))
	if err != nil {
		t.Fatal(err)
	}
	rows := pairsOf(t, true, true, false)
	e, err := trainer.NewEngine(m, m.Memory(), trainer.EngineConfig{Batch: len(rows), Seq: len(rows[0].IDs),
		Optim: optim.DefaultConfig(), Preference: preference.Config{Stage: preference.SimPO, Beta: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for batch := range data.Batches(rows, len(rows)) {
		if _, err := e.Step(t.Context(), []data.Batch{batch}, 0); err == nil || !strings.Contains(err.Error(), "layers see 6 tokens only") {
			t.Errorf("error %v", err)
		}
	}
}

// TestPromptsAreThereOnceWhereThatIsExact asks for the pairs of which they are.
func TestPromptsAreThereOnceWhereThatIsExact(t *testing.T) {
	balanced := strings.Replace(tiny, "{", `{"output_router_logits": true, "router_aux_loss_coef": 0.1, `, 1)
	write := func(t *testing.T, dir, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		config  string
		change  func(c *trainer.Config)
		longest int
		why     string
	}{
		"plain":                {llamaOf, func(*trainer.Config) {}, math.MaxInt, ""},
		"experts":              {tiny, func(*trainer.Config) {}, math.MaxInt, ""},
		"window":               {slidingOf, func(*trainer.Config) {}, 20, "longer than the 20 tokens"},
		"dropout":              {llamaOf, func(c *trainer.Config) { c.LoRA = lora.Config{Rank: 2, Dropout: 0.1} }, 0, "dropout"},
		"noise":                {llamaOf, func(c *trainer.Config) { c.Objective.Noise = 5 }, 0, "noise"},
		"balance":              {tiny, func(c *trainer.Config) { c.Objective.Balance = 0.1 }, 0, "routers"},
		"z-loss":               {tiny, func(c *trainer.Config) { c.Objective.RouterZ = 0.1 }, 0, "routers"},
		"balance of the model": {balanced, func(*trainer.Config) {}, 0, "routers"},
		"no such model":        {`{"model_type": "other"}`, func(*trainer.Config) {}, 0, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			c := trainer.Default()
			c.Model = t.TempDir()
			write(t, c.Model, "config.json", test.config)
			test.change(&c)
			if f := trainer.ForksOf(c); f.Longest != test.longest || !strings.Contains(f.Why, test.why) || (f.Why == "") != (test.why == "") {
				t.Errorf("%+v, want %d, %q", f, test.longest, test.why)
			}
		})
	}
	t.Run("an adapter with dropout", func(t *testing.T) {
		c := trainer.Default()
		c.Model, c.LoRA.Adapter = t.TempDir(), t.TempDir()
		write(t, c.Model, "config.json", llamaOf)
		write(t, c.LoRA.Adapter, "adapter_config.json", `{"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2,
			"target_modules": ["q_proj"], "lora_dropout": 0.2}`)
		if f := trainer.ForksOf(c); f.Longest != 0 || !strings.Contains(f.Why, "dropout") {
			t.Errorf("%+v", f)
		}
	})
}
