package demo

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// defaults returns the configuration of a user who gave no flag.
func defaults() trainer.Config {
	return Config(trainer.Default(), func(string) bool { return false })
}

func newDemo(t *testing.T, c trainer.Config) *Demo {
	t.Helper()
	d, err := New(c, autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// drilled returns a demo that has been trained, saved to out, on its first few held-out
// examples alone: it knows those by heart and nothing else.
func drilled(t *testing.T, out string) (*Demo, *trainer.Summary) {
	t.Helper()
	const few = 8
	c := defaults()
	c.Steps, c.Batch, c.Warmup, c.Schedule, c.Out = 40, few, 5, optim.Constant, out
	d := newDemo(t, c)
	d.Held = d.Held[:4*few]
	rows := d.Job.Eval.(data.Slice)[:few]
	d.Job.Train, d.Job.Eval = rows, rows
	s, err := d.Job.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return d, s
}

func TestConfigKeepsWhatTheUserGave(t *testing.T) {
	c := trainer.Default()
	c.Steps, c.LR = 7, 0.5
	got := Config(c, func(flag string) bool { return flag == "steps" || flag == "lr" })
	if got.Steps != 7 || got.LR != 0.5 {
		t.Errorf("given steps 7 and rate 0.5 became %d and %g", got.Steps, got.LR)
	}
	if got.Batch == c.Batch || got.Seq == c.Seq {
		t.Errorf("batch %d and seq %d are not the demo's own", got.Batch, got.Seq)
	}
	if got := Config(c, func(flag string) bool { return flag == "epochs" }); got.Steps != c.Steps {
		t.Errorf("trainer.Config.Epochs, but %d steps", got.Steps)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

func TestNewNamesTheFlagThatDoesNotFit(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*trainer.Config)
		want   string
	}{
		"rows too short":   {func(c *trainer.Config) { c.Seq = 20 }, "trainer.Config.Seq is 20"},
		"rows too long":    {func(c *trainer.Config) { c.Seq = 65 }, "trainer.Config.Seq is 65"},
		"no learning rate": {func(c *trainer.Config) { c.LR = 0 }, "trainer.Config.LR is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			c := defaults()
			tt.change(&c)
			if _, err := New(c, autograd.Heap{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestModelUsesAllFourOps(t *testing.T) {
	sites := map[core.Op]int{}
	for _, s := range newDemo(t, defaults()).Job.Model.Sites() {
		sites[s.Op]++
	}
	for _, op := range []core.Op{core.RMSNorm, core.RoPE, core.SwiGLU, core.MoEExperts} {
		if sites[op] == 0 {
			t.Errorf("no site uses %s", op)
		}
	}
}

func TestFilesAgreeOnTheTokens(t *testing.T) {
	d := newDemo(t, defaults())
	var roles struct {
		Vocab int `json:"vocab_size"`
		BOS   int `json:"bos_token_id"`
		EOS   int `json:"eos_token_id"`
		Pad   int `json:"pad_token_id"`
	}
	generation := slices.IndexFunc(d.Job.Files, func(f trainer.File) bool { return f.Name == "generation_config.json" })
	for _, raw := range [][]byte{d.Job.Model.RawConfig, d.Job.Files[generation].Data} {
		if err := json.Unmarshal(raw, &roles); err != nil {
			t.Fatal(err)
		}
		for token, id := range map[string]int{"<s>": roles.BOS, "</s>": roles.EOS, "<pad>": roles.Pad} {
			if got, ok := d.tok.TokenID(token); !ok || int(got) != id {
				t.Errorf("%s is %d to the tokenizer and %d to the model", token, got, id)
			}
		}
	}
	if roles.Vocab != d.tok.VocabSize() {
		t.Errorf("vocab_size is %d, the tokenizer has %d", roles.Vocab, d.tok.VocabSize())
	}
}

func TestOnlyAnswersAreLabels(t *testing.T) {
	d := newDemo(t, defaults())
	for i, e := range d.Held {
		var labels []int32
		for _, l := range d.Job.Eval.(data.Slice)[i].Labels {
			if l != data.Ignore {
				labels = append(labels, l)
			}
		}
		if got := d.tok.Decode(labels, false); got != e.Want+"</s>" {
			t.Errorf("%q has the labels %q", e.Prompt, got)
		}
	}
}

func TestSavedFolderIsTheTrainedModel(t *testing.T) {
	out := filepath.Join(t.TempDir(), "wug")
	_, s := drilled(t, out)
	if s.Last.Loss > s.First.Loss/10 {
		t.Errorf("the loss went from %g to %g only", s.First.Loss, s.Last.Loss)
	}
	tok, err := tokenizer.Load(out)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := tok.EOS(); !ok {
		t.Error("the saved tokenizer knows no end of text")
	}
	m, err := models.Load(out, autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	c := defaults()
	e, err := trainer.NewEngine(m, autograd.Heap{},
		trainer.EngineConfig{Batch: 8, Seq: c.Seq, Optim: optim.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	loss, _, err := e.Evaluate(context.Background(), data.Batches(newDemo(t, c).Job.Eval.(data.Slice)[:8], 8))
	if err != nil || loss != s.After.Loss {
		t.Errorf("loaded, the loss is %g (%v); it was %g", loss, err, s.After.Loss)
	}
}
