package models_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// story is a recording of a real model: a prompt, what greedy decoding makes of it, and
// the logits after the prompt. Another program made it from the same folder.
type story struct {
	Prompt     []int32      `json:"prompt_ids"`
	Greedy     []int32      `json:"greedy_ids"`
	Top5       [][2]float64 `json:"last_prompt_logits_top5"`
	MeanNLL    float64      `json:"mean_nll_all_tokens"`
	PromptText string       `json:"prompt"`
}

// TestRealModelsContinueStoriesAsRecorded runs the recorded continuation through the
// model: every token of it must be the likeliest at its place, which is to decode it
// greedily, and logits and loss must be the recorded ones.
func TestRealModelsContinueStoriesAsRecorded(t *testing.T) {
	for _, name := range []string{"stories260K", "stories15M"} {
		dir := testdata.Shared(t, "data", "models", name)
		var recorded struct {
			Cases []story `json:"cases"`
		}
		b, err := os.ReadFile(filepath.Join(dir, "gold.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &recorded); err != nil || len(recorded.Cases) == 0 {
			t.Fatalf("gold.json: %d cases, %v", len(recorded.Cases), err)
		}
		m, err := models.Load(dir, autograd.Heap{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range recorded.Cases {
			t.Run(name+"/"+c.PromptText, func(t *testing.T) { c.check(t, m) })
		}
	}
}

func (c story) check(t *testing.T, m *models.Model) {
	n := len(c.Greedy)
	logits, loss := c.run(t, m)
	if !(math.Abs(loss-c.MeanNLL) <= 2e-5) {
		t.Errorf("mean loss %.7f, recorded %.7f", loss, c.MeanNLL)
	}
	vocab := m.Vocab()
	for i := len(c.Prompt) - 1; i < n-1; i++ {
		row := logits[i*vocab : (i+1)*vocab]
		best := 0
		for id, v := range row {
			if v > row[best] {
				best = id
			}
		}
		if int32(best) != c.Greedy[i+1] {
			t.Fatalf("token %d is %d, recorded %d", i+1, best, c.Greedy[i+1])
		}
	}
	after := logits[(len(c.Prompt)-1)*vocab:]
	for _, want := range c.Top5 {
		if got := float64(after[int(want[0])]); !(math.Abs(got-want[1]) <= 1e-4) {
			t.Errorf("logit of token %g is %.6f, recorded %.6f", want[0], got, want[1])
		}
	}
}

// run returns the logits of the whole continuation and its mean loss.
func (c story) run(t *testing.T, m *models.Model) (logits []float32, loss float64) {
	t.Helper()
	rows, err := data.Pack([][]int32{c.Greedy}, len(c.Greedy), 0)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nn.NewContext(autograd.Heap{}, 1, len(c.Greedy), len(c.Greedy))
	if err != nil {
		t.Fatal(err)
	}
	out := m.Forward(nc)
	out.Logits.Keep()
	p, err := m.Compile(nc, out.Loss, true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for b := range data.Batches(rows, 1) {
		if err := p.Batch.Fill(b, b.Targets()); err != nil {
			t.Fatal(err)
		}
	}
	if loss, err = p.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p.Tensor(out.Logits).Float32s(), loss
}
