package demo

import (
	"embed"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

//go:embed model/*.json
var files embed.FS

// Config returns c with the demo's own values in the fields whose flag was not given. With
// them the training takes about half a minute on two cores, and nearly every answer is
// right afterwards.
func Config(c trainer.Config, given func(flag string) bool) trainer.Config {
	if !given("steps") && !given("epochs") {
		c.Steps = 550
	}
	if !given("batch") {
		c.Batch = 32
	}
	if !given("seq") {
		c.Seq = longestExample
	}
	if !given("lr") {
		c.LR = 4e-3
	}
	if !given("warmup") {
		c.Warmup = 20
	}
	return c
}

// Demo is a training run with the examples that it is tested on.
type Demo struct {
	Job      *trainer.Job
	Held     []Example // none of their words is trained on
	tok      *tokenizer.Tokenizer
	eos, pad int32
}

// New builds the model in mem, with random weights that follow from c.Seed, and its data.
// The caller may set the job's kernels and hooks before running it. Errors name the flag
// that does not fit.
func New(c trainer.Config, mem core.Memory) (*Demo, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	entries, err := files.ReadDir("model")
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	d := &Demo{Job: &trainer.Job{Config: c, Memory: mem}}
	folder := map[string][]byte{}
	for _, e := range entries {
		name := e.Name()
		if folder[name], err = files.ReadFile("model/" + name); err != nil {
			return nil, fmt.Errorf("demo: %w", err)
		}
		if name != configFile { // which the job writes from the model
			d.Job.Files = append(d.Job.Files, trainer.File{Name: name, Data: folder[name]})
		}
	}
	if d.tok, err = tokenizer.Parse("tokenizer.json", folder["tokenizer.json"]); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	d.Job.Tokenizer = d.tok
	d.eos, _ = d.tok.TokenID("</s>")
	d.pad, _ = d.tok.TokenID("<pad>")
	train, held := corpus()
	d.Held = held
	if d.Job.Train, err = d.rows(train); err != nil {
		return nil, err
	}
	if d.Job.Eval, err = d.rows(held); err != nil {
		return nil, err
	}
	if err := d.build(folder[configFile]); err != nil {
		return nil, err
	}
	return d, nil
}

// build makes the model.
func (d *Demo) build(config []byte) error {
	m, err := models.New(config, d.Job.Memory)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if seq, limit := d.Job.Config.Seq, m.Config.MaxPositionEmbeddings; seq > limit {
		m.Free()
		return fmt.Errorf("demo: trainer.Config.Seq is %d, but the model has only %d positions: choose at most that", seq,
			limit)
	}
	m.Init(d.Job.Config.Seed)
	d.Job.Model = m
	return nil
}

// configFile is the model's description, one of the embedded files.
const configFile = "config.json"

// target returns the tokens of a right answer.
func (d *Demo) target(e Example) []int32 { return append(d.tok.Encode(e.Want, false), d.eos) }

// rows makes one row of each example. Only the tokens of the answer are labels: what
// comes before cannot be guessed.
func (d *Demo) rows(examples []Example) (data.Slice, error) {
	seq := d.Job.Config.Seq
	rows := make(data.Slice, len(examples))
	for i, e := range examples {
		prompt := d.tok.Encode(e.Prompt, true)
		ids := append(prompt, d.target(e)...)
		if len(ids) > seq {
			return nil, fmt.Errorf("demo: trainer.Config.Seq is %d, but an example (%s%s) has %d tokens: choose at least %d",
				seq, e.Prompt, e.Want, len(ids), longestExample)
		}
		packed, err := data.Pack([][]int32{ids}, seq, d.pad)
		if err != nil {
			return nil, fmt.Errorf("demo: %w", err)
		}
		rows[i] = packed[0]
		for t := range prompt {
			rows[i].Labels[t] = data.Ignore
		}
	}
	return rows, nil
}
