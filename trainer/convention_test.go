package trainer_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/nn"
	"github.com/seed98097648/tune/trainer/optim"
)

// The golden lists are of transformers' Trainer.get_decay_parameter_names, for the
// parameters of every family.
func TestWeightDecayLeavesOutWhatHFTrainerLeavesOut(t *testing.T) {
	text, err := os.ReadFile(testdata.Shared(t, "golden", "ops", "weight_decay_groups.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Variants map[string]struct {
			Names []string
			Decay []bool
		}
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Variants) == 0 {
		t.Fatal("no variants")
	}
	for family, v := range golden.Variants {
		for i, name := range v.Names {
			if got := !trainer.Undecayed(&nn.Param{Name: name}); got != v.Decay[i] {
				t.Errorf("%s: %s decays: %v, want %v", family, name, got, v.Decay[i])
			}
		}
	}
	for name, want := range map[string]bool{
		"model.layers.0.self_attn.q_proj.lora_A.weight": true, "model.layers.0.self_attn.q_proj.lora_B.weight": true,
		"model.layers.0.enorm.weight": true, "model.layers.0.post_self_attn_layernorm.weight": false, "NORM.weight": false,
	} {
		if got := !trainer.Undecayed(&nn.Param{Name: name}); got != want {
			t.Errorf("%s decays: %v, want %v", name, got, want)
		}
	}
	packed := &nn.Param{Name: "model.layers.0.input", Entries: []nn.Entry{{Name: "model.layers.0.input_layernorm.weight"}}}
	if !trainer.Undecayed(packed) {
		t.Error("the name of a tensor in the file is not what decides")
	}
}

// With a decay so strong that it outweighs everything else, one step shrinks what decays.
func TestNormsDecayOnlyWhenAskedFor(t *testing.T) {
	for _, all := range []bool{false, true} {
		j := job(t)
		j.Config.Steps, j.Config.WeightDecay, j.Config.LR, j.Config.DecayAll = 1, 1000, 1e-5, all
		before := map[string][]float32{}
		for _, p := range j.Model.Params() {
			before[p.Name] = append([]float32(nil), p.Tensor.Float32s()...)
		}
		if _, err := j.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range j.Model.Params() {
			var was, is float64
			for i, v := range p.Tensor.Float32s() {
				was += math.Abs(float64(before[p.Name][i]))
				is += math.Abs(float64(v))
			}
			if was == 0 {
				continue // biases start from nothing
			}
			if shrunk, want := is < 0.995*was, all || !trainer.Undecayed(p); shrunk != want {
				t.Errorf("decay of all %v: %s went from %g to %g", all, p.Name, was, is)
			}
		}
	}
}

// TestLoRAPlusMultipliesTheRatesOfB, and of vectors, as PEFT's optimizer does, of all that is trained, and of a step.
func TestLoRAPlusMultipliesTheRatesOfB(t *testing.T) {
	c := trainer.Default()
	if c.LoRA.Rank = 4; c.Engine().Rate != nil {
		t.Error("rates are multiplied without LoRA+")
	}
	c.LoRA.PlusRatio = 16
	rate := c.Engine().Rate
	for name, tt := range map[string]struct {
		shape core.Shape
		want  float64
	}{"layers.0.mlp.lora_A": {core.Shape{4, 8}, 1}, "layers.0.mlp.lora_B": {core.Shape{8, 4}, 16},
		"norm.weight": {core.Shape{8}, 16}, "lm_head.weight": {core.Shape{8, 4}, 1}} {
		if got := rate(&nn.Param{Name: name, Tensor: core.NewTensor(core.Float32, tt.shape...)}); got != tt.want {
			t.Errorf("the rate of %s is multiplied by %g, want %g", name, got, tt.want)
		}
	}
	dir := tinyFolder(t)
	step := func(rate func(*nn.Param) float64) []*nn.Param {
		r := newLoRARun(t, autograd.Heap{}, dir, lora.Config{Rank: 4}, nil, unclipped, func(c *trainer.EngineConfig) {
			c.Optim.Kind, c.Rate = optim.SGD, rate
		})
		return r.steps(1).model.Trainable()
	}
	plain := step(nil)
	for i, p := range step(rate) {
		var was, is float64
		for k, v := range p.Tensor.Float32s() {
			was, is = was+math.Abs(float64(plain[i].Tensor.Float32s()[k])), is+math.Abs(float64(v))
		}
		if want := rate(p) * was; was == 0 || !(math.Abs(is/want-1) <= 1e-6) { // B begins with 0, and A stays where it is
			t.Errorf("%s has the size %g, want %g", p.Name, is, want)
		}
	}
}

// Steps of an epoch are ceil(ceil(rows/batch)/accumulation), and the last batch and the
// last step have what is left, as in transformers.
func TestAnEpochEndsWithASmallerStep(t *testing.T) {
	for _, tt := range []struct {
		rows, batch, accumulate int
		epochs                  float64
		steps                   int
		tokens                  []int // rows of each step, padding included
	}{
		{7, 2, 3, 1, 2, []int{6, 2}},
		{7, 2, 3, 2, 4, []int{6, 2, 6, 2}},
		{7, 2, 3, 1.2, 3, []int{6, 2, 6}},
		{8, 2, 2, 2, 4, []int{4, 4, 4, 4}},
		{1, 4, 2, 2, 2, []int{4, 4}},
	} {
		j := job(t)
		j.Train = j.Train.(data.Slice)[:tt.rows]
		c := &j.Config
		c.Steps, c.Epochs, c.Batch, c.Accumulate = 0, tt.epochs, tt.batch, tt.accumulate
		var got []int
		j.Hooks.OnStep = func(s trainer.Step) { got = append(got, s.Tokens/c.Seq) }
		s, err := j.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := j.Schedule().Steps; s.Steps != tt.steps || n != tt.steps {
			t.Errorf("%+v: %d steps of %d", tt, s.Steps, n)
		}
		for i := range got {
			if got[i] != tt.tokens[i] {
				t.Errorf("%+v: the steps have %v rows", tt, got)
				break
			}
		}
	}
}

// A smaller batch weighs each of its targets as a full one does: filling it up with padding
// changes no number of the step but by rounding.
func TestPaddingRowsChangeNothing(t *testing.T) {
	all := rows(t, 17)[:3]
	var losses, norms []float64
	for _, batch := range []int{3, 8} {
		_, e := engine(t, batch, 1)
		for b := range data.Batches(all, batch) {
			r, err := e.Step(t.Context(), []data.Batch{b}, 1e-3)
			if err != nil {
				t.Fatal(err)
			}
			losses, norms = append(losses, r.Loss), append(norms, r.GradNorm)
		}
	}
	if !(math.Abs(losses[0]-losses[1]) <= 1e-6) || !(math.Abs(norms[0]/norms[1]-1) <= 1e-6) {
		t.Errorf("losses %v, norms of the gradient %v", losses, norms)
	}
}
