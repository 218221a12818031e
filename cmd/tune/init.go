package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/data/format"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/preference"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

const initLong = `Write a configuration file for a model and data, with a comment on each line
that says why. It asks nothing: the form of the data, the chat template, the
length of a row and the stage are what the files show; "tune --config run.yaml"
then trains. Everything in it can be changed, see "tune train --help".`

// initFlags are the values of init's flags.
type initFlags struct {
	config trainer.Config
	staged bool // the stage is given
	lora   bool
	out    string
}

func (a *app) initCommand() *Command {
	c := &Command{Name: "init", Usage: "--model DIR --data FILE [FLAGS]",
		Short: "write a commented configuration file for a model and data", Long: initLong,
		Examples: "tune init --model DIR --data chat.jsonl --lora\ntune --config run.yaml\n"}
	i := &initFlags{config: trainer.Default()}
	f := c.Group("Model and data")
	f.StringVar(&i.config.Model, "model", "", "the model `FOLDER`; config.json and the tokenizer's files are enough")
	addDataPaths(f, &i.config.Data)
	addStage(f, &i.config.Preference)
	f.BoolVar(&i.lora, "lora", false, "train adapters instead of all weights, which takes a part of the memory")
	addDataReading(c.Group("Reading the data"), &i.config.Data)
	c.Group("Output").StringVar(&i.out, "out", "run.yaml", "the `FILE` to write, which must not "+
		"exist; - for standard output")
	return c.finish(func(ctx context.Context, _ []string) error { return a.init(ctx, c, i) })
}

func (a *app) init(ctx context.Context, c *Command, i *initFlags) error {
	if err := i.check(c); err != nil {
		return err
	}
	i.staged = c.Flags.Changed("stage")
	config, err := models.ReadConfig(i.config.Model)
	if err != nil {
		return fmt.Errorf("--model: %w", err)
	}
	tok, err := i.config.Tokenizer()
	if err != nil {
		return err
	}
	found, err := i.look(ctx, config, tok)
	if err != nil {
		return err
	}
	text, err := found.yaml(i)
	if err != nil {
		return err
	}
	if i.out == "-" {
		_, err := a.stdout.Write(text)
		return err
	}
	if err := writeWhole(i.out, text); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	a.note("wrote %s; train with: %s --config %s", i.out, invocation(), quoted(i.out))
	return nil
}

// check validates what needs no file of the model or the data.
func (i *initFlags) check(c *Command) error {
	switch {
	case i.config.Model == "":
		return c.usagef("--model is needed: name the model folder to train")
	case len(i.config.Data.Paths) == 0:
		return c.usagef("--data is needed: name the data to train on")
	}
	if err := c.misuse(i.config.Validate()); err != nil {
		return err
	}
	if _, err := os.Lstat(i.out); i.out != "-" && !errors.Is(err, fs.ErrNotExist) {
		return c.usagef("--out: %s exists: name another file, or remove it", i.out)
	}
	return checkWritable(i.out)
}

// finding is what a model and data show.
type finding struct {
	model     string // its type
	positions int
	seq       int // tokens of a row
	formats   []string
	report    corpus.Report
	why       struct{ stage, template string }
}

// longestGuess is the longest row that nobody has asked for: memory grows with it.
const longestGuess = 2048

// look reads the data, as the stage and the template say that it fits first.
func (i *initFlags) look(ctx context.Context, config []byte, tok *tokenizer.Tokenizer) (_ *finding, err error) {
	var described struct {
		Type string `json:"model_type"`
	}
	if err := json.Unmarshal(config, &described); err != nil {
		return nil, fmt.Errorf("--model: config.json: %w", err)
	}
	f := &finding{model: described.Type, positions: positions(config)}
	f.why.stage, f.why.template = "as was asked for", "as was asked for"
	read, err := i.read(ctx, f, tok)
	if errors.Is(err, format.ErrPreference) && !i.staged {
		for _, i.config.Preference.Stage = range []string{preference.DPO, preference.KTO} {
			f.why.stage = map[string]string{preference.DPO: "the data has pairs of a chosen and a rejected answer",
				preference.KTO: "the data has answers marked as good or bad"}[i.config.Preference.Stage]
			if read, err = i.read(ctx, f, tok); err == nil {
				break
			}
		}
	}
	if err != nil {
		return nil, err
	}
	defer closing(read, &err)
	f.report = read.Report
	for _, s := range read.Report.Sources {
		f.formats = append(f.formats, fmt.Sprintf("%s is %s, %s", filepath.Base(s.File), s.Format,
			amount.Of(s.Examples, "example")))
	}
	const multiple, least = 64, 128
	most := longestGuess
	if f.positions > 1 {
		most = min(most, f.positions)
	}
	f.seq = min(max((read.Report.Longest+multiple-1)/multiple*multiple, least), i.config.RowOf(most))
	return f, nil
}

// read reads the data with rows as long as they may be, with another template if the model has none.
func (i *initFlags) read(ctx context.Context, f *finding, tok *tokenizer.Tokenizer) (*corpus.Corpus, error) {
	i.config.Seq = i.config.RowOf(longestGuess)
	if f.positions > 1 {
		i.config.Seq = min(i.config.Seq, i.config.RowOf(f.positions))
	}
	read, err := corpus.Load(ctx, i.config.Data, trainer.DataModel(i.config, tok))
	if errors.Is(err, chat.ErrNoTemplate) && i.config.Data.Template == "" {
		i.config.Data.Template, f.why.template = templateFor(tok)
		read, err = corpus.Load(ctx, i.config.Data, trainer.DataModel(i.config, tok))
	}
	return read, err
}

// templateFor chooses a built-in template by the marks that the tokenizer knows.
func templateFor(tok *tokenizer.Tokenizer) (name, why string) {
	for _, known := range []struct{ mark, template string }{
		{"<|im_start|>", "chatml"}, {"<|start_header_id|>", "llama3"}, {"[gMASK]", "glm4"},
	} {
		if _, ok := tok.TokenID(known.mark); ok {
			return known.template, "the model has no chat template, and the tokenizer has " + known.mark
		}
	}
	return "alpaca", "the model has no chat template; this one fits any tokenizer"
}

// line is a key of the file, with the reason for its value.
type line struct {
	key   string
	value any
	why   string
}

// lines are what the file has.
func (f *finding) lines(i *initFlags) []line {
	c, epochs, kind := i.config, 1, map[bool]string{true: "two answers share a row, "}[i.config.Preference.Enabled()]
	if f.report.Examples < repeated {
		epochs = 3
	}
	model := f.model
	if f.positions > 0 {
		model += fmt.Sprintf(", up to %d tokens", f.positions)
	}
	all := []line{{"model", c.Model, model}, {"data", c.Data.Paths, strings.Join(f.formats, "; ")}}
	optional := func(is bool, l line) {
		if is {
			all = append(all, l)
		}
	}
	optional(len(c.Data.Eval) > 0, line{"eval_data", c.Data.Eval, "what is evaluated on"})
	optional(c.Data.Dir != "", line{"dataset_dir", c.Data.Dir, "where the names of data are found"})
	optional(c.Data.Format != "" && c.Data.Format != format.Auto,
		line{"data_format", string(c.Data.Format), "as was asked for"})
	optional(c.Data.EvalSize != nil, line{"eval_size", c.Data.EvalSize, "as was asked for"})
	optional(c.Data.MaxSamples > 0, line{"max_samples", c.Data.MaxSamples, "as was asked for"})
	optional(c.Data.SkipBadRows, line{"skip_bad_rows", true, "as was asked for"})
	optional(i.staged || c.Preference.Enabled(), line{"stage", c.Preference.Stage, f.why.stage})
	optional(c.Data.Template != "", line{"template", c.Data.Template, f.why.template})
	name := filepath.Base(filepath.Clean(c.Model)) + "-tuned"
	all = append(all, line{"out", name, "the folder that is saved"},
		line{"seq", f.seq, fmt.Sprintf("tokens of a row: %sthe longest example has %d", kind, f.report.Longest)},
		line{"batch", 4, "rows of a batch; fewer take less memory"},
		line{"grad_accum", 2, "batches of a step: 8 rows together"},
		line{"epochs", epochs, fmt.Sprintf("passes over %s", amount.Of(f.report.Examples, "example"))})
	optional(i.lora, line{"lora_rank", 8, "adapters of this rank on every linear layer; without this line all " +
		"weights are trained"})
	rate, why := rateFor(c.Preference.Enabled(), i.lora)
	all = append(all, line{"lr", rate, why}, line{"schedule", "cosine", "falls to 0 at the end"},
		line{"warmup_ratio", 0.03, "of the steps, with a rising rate"})
	if f.report.EvalRows > 0 {
		all = append(all, line{"eval_epochs", 0.25, "passes between evaluations, on " +
			amount.Of(f.report.EvalRows, "row")},
			line{"early_stopping", 3, "evaluations without a better one end the run"},
			line{"load_best_at_end", true, "the model of the best evaluation is saved, not the last"})
	}
	return append(all, line{"seed", 0, "the same seed gives the same run"})
}

// repeated is below how many examples each is seen more than once.
const repeated = 5000

// rateFor returns a usual learning rate.
func rateFor(preferences, lora bool) (rate float64, why string) {
	switch {
	case preferences && lora:
		return 2e-5, "careful: with ten times as much, answers are learned by heart"
	case preferences:
		return 2e-6, "careful: a tenth of what adapters take"
	case lora:
		return 2e-4, "usual for adapters; tune train --config FILE --find-lr looks for one"
	}
	return 2e-5, "usual for all weights; tune train --config FILE --find-lr looks for one"
}

// yaml writes the file.
func (f *finding) yaml(i *initFlags) ([]byte, error) {
	doc := yaml.Node{Kind: yaml.MappingNode, HeadComment: "Written by tune init. Train with: tune --config FILE",
		FootComment: "More: gradient_checkpointing: true takes less memory; save_every: 100 keeps checkpoints; " +
			"metric: rouge_l scores answers.\n" + "All keys: tune train --help, with underscores for dashes."}
	for _, l := range f.lines(i) {
		key, value := yaml.Node{Kind: yaml.ScalarNode, Value: l.key}, yaml.Node{}
		if err := value.Encode(l.value); err != nil {
			return nil, fmt.Errorf("write %s: %w", l.key, err)
		}
		if value.Kind == yaml.SequenceNode {
			value.Style = yaml.FlowStyle
		}
		if value.LineComment = l.why; value.Kind == yaml.SequenceNode {
			key.HeadComment, value.LineComment = l.why, ""
		}
		doc.Content = append(doc.Content, &key, &value)
	}
	return yaml.Marshal(&doc)
}
