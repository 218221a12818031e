package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/demo"
	"github.com/seed98097648/tune/trainer/distributed"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/progress"
)

const trainLong = `Fine-tune a model on text and save it as a model folder that tune and
transformers can load.

--model is a Hugging Face model folder: config.json, model.safetensors or its
shards, tokenizer.json. --data is text, or rows of Alpaca, ShareGPT, messages,
questions and answers, or text, in JSONL, JSON, CSV or Parquet; or a folder of
such files. "tune data preview" shows what is read. Of conversations only the
assistant's words are learned. With --stage dpo, orpo, simpo or kto, training is
on preferences: pairs of a better and a worse answer, or answers that are
marked. A part of the data is held out and evaluated before, during and after,
unless --eval-data is given. Without --model and --data, tune trains a small
model on examples of its own, to show that everything works; flags that are
given change that run too.

--config reads any of these flags from a YAML file, where a key is the flag's
name with underscores, or LLaMA-Factory's name for it; --print-config shows what
all of them come to, and the saved folder keeps it as tune.yaml.

Ctrl-C, or closing the terminal, finishes the step and saves; a second Ctrl-C
gives up at once and leaves nothing behind but checkpoints.

With --save-every, the run can be killed at any moment and resumed: "tune
--resume --out DIR" takes everything else from the newest checkpoint in DIR and
goes on to the same result, to the bit. It refuses flags that would change that.

With --log json, standard output has one JSON object on a line for each step,
with exactly the fields step, loss, lr, grad_norm and tokens_per_s; everything
else goes to standard error. The saved training_log.jsonl has the evaluations
too, with eval_loss, and at its end train_loss, the mean loss of all steps.`

const trainExamples = `tune --kernels auto
tune --kernels auto --model DIR --data notes.txt --epochs 3 --out my-model
tune train --model DIR --data train.jsonl --eval-data test.jsonl --steps 200 \
  --batch 8 --seq 512 --lr 5e-5 --warmup 20 --log json
tune train --config run.yaml --lr 2e-5
tune --model DIR --data notes.txt --out my-model --save-every 100
tune --resume --out my-model
tune --model DIR --data notes.txt --kernels from:my-model --out again
`

// trainFlags are the values of train's flags.
type trainFlags struct {
	config  trainer.Config
	kernels kernelFlags
	view    viewFlags
	ranks   rankFlags
	file    configFile
	log     string
	memory  memoryLimit
	// recompute is of --gradient-checkpointing.
	recompute recomputing
	from      string          // --resume
	resume    *trainer.Resume // nil unless given
	changed   func(flag string) bool
	findLR    bool // --find-lr
	noData    bool // a run that is only planned needs none
}

func (a *app) trainCommand() *Command {
	c := &Command{Name: "train", Usage: "[--model DIR --data FILE] [FLAGS]",
		Short: "fine-tune a model (what tune does without a command)",
		Long:  trainLong, Examples: trainExamples}
	t := newTrainFlags(c)
	return c.finish(func(ctx context.Context, _ []string) error { return a.train(ctx, c, t) })
}

// newTrainFlags adds train's flags to a command.
func newTrainFlags(c *Command) *trainFlags {
	t := &trainFlags{config: trainer.Default(), changed: func(flag string) bool { return c.Flags.Changed(flag) }}
	t.file.add(c.Group("Configuration"))
	t.addData(c.Group("Model and data"))
	reading := c.Group("Reading the data")
	addDataReading(reading, &t.config.Data)
	addDataLearning(reading, &t.config.Data)
	addGrouping(reading, &t.config.GroupByLength)
	t.addLength(c.Group("Length of the run"))
	addPreference(c.Group("Preferences"), &t.config.Preference)
	t.addOptimizer(c.Group("Optimizer"))
	addWords(c.Group("New tokens"), &t.config.Words)
	addSelection(c.Group("What is trained"), &t.config.Select)
	addObjective(c.Group("Loss"), &t.config.Objective)
	lora := c.Group("LoRA")
	addLoRA(lora, &t.config.LoRA)
	lora.Float64Var(&t.config.LoRA.PlusRatio, "loraplus-lr-ratio", t.config.LoRA.PlusRatio,
		"how many `TIMES` the learning rate the adapters' B has (LoRA+); 0 for that of A")
	t.addCheckpoints(c.Group("Checkpoints and evaluation"))
	kernels := c.Group("Kernels")
	t.kernels.add(kernels, t.config.Kernels)
	t.kernels.addVerbose(kernels)
	addStrict(kernels, &t.config.Strict)
	addCheck(kernels, &t.config.CheckEvery, "`STEPS`")
	t.view.add(c.Group("Watching the run"))
	t.ranks.add(c.Group("Several ranks"))
	machine := c.Group("Machine and output")
	addThreads(machine, &t.config.Threads)
	addRecompute(machine, &t.recompute, &t.config, "; auto for as few as fit into --memory, or else what is free, which "+
		"takes less time")
	machine.Var(&t.memory, "memory", "the most memory that the run may take, plugins and all: a `SIZE` such as 6GiB, or "+
		"auto for what is free; of what the flags leave open, as much is changed as makes it fit, and said")
	addMaxKept(machine, &t.config)
	addPrecision(machine, &t.config)
	machine.BoolVar(&t.config.Force, "force", false,
		"train even if the run is forecast to need more memory than is free")
	machine.StringVar(&t.log, "log", string(progress.Text), "`FORMAT` of the progress on standard output: text or json")
	return t
}

func (a *app) train(ctx context.Context, c *Command, t *trainFlags) (err error) {
	defer func() { err = needLess(err) }()
	printed, err := t.ready(ctx, a, c)
	if t.ranks.distributed == distributedOff {
		a.launch = distributed.Launch{}
	}
	if printed || err != nil {
		return err
	}
	if err := a.join(t); err != nil {
		return err
	}
	var claim *checkpoint.Claim
	if !a.follows() {
		if claim, err = t.place(ctx, a, c); err != nil {
			return err
		}
		defer closing(claim, &err)
		defer t.view.close(a)
	}
	if err := t.fitModel(c); err != nil {
		return t.moved(err)
	}
	simd.SetThreads(t.config.Threads) // also for what the command does before and after the run
	mem, err := newMemory()
	if err != nil {
		return err
	}
	defer closing(mem, &err)
	reg, err := t.kernels.open(ctx, a, transport.Options{Threads: t.config.Threads, Strict: t.config.Strict,
		MaxKept: t.config.MaxKept})
	if err != nil {
		return err
	}
	defer closing(reg, &err)
	fitted, err := a.fit(ctx, c, t, reg)
	if err != nil {
		return err
	}
	for _, line := range fitted.lines() {
		a.note0("%s", line)
	}
	job, example, err := t.load(ctx, mem)
	if err != nil {
		return a.advise(ctx, c, t, nil, reg, t.moved(err))
	}
	defer closing(job, &err)
	job.Claim = claim
	if err := a.equip(c, t, job); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // interrupted while loading: there is nothing to save
	}
	a.noteUpdates(job.Config)
	if t.findLR {
		return t.kernels.blame(a.findRate(ctx, job, reg))
	}
	if !a.follows() {
		if err := t.view.attach(a, job); err != nil {
			return err
		}
	}
	err = t.kernels.blame(a.runJob(ctx, job, reg, progress.Format(t.log), example, t.kernels.placed))
	return a.advise(ctx, c, t, job.Model, reg, err)
}

// equip gives a job what the command knows besides, and says what of the data is not used.
func (a *app) equip(c *Command, t *trainFlags, job *trainer.Job) error {
	job.Resume, job.Unsaved, job.World = t.resume, a.unsaved, a.world
	if t.changed("warmup") || t.changed("warmup-ratio") {
		job.Hooks.OnStart = a.noteWarmup
	}
	a.again = newAgain(c, &t.kernels.plugins)
	if err := t.keepConfig(c, job); err != nil || a.follows() {
		return err
	}
	return a.noteData(job.Config.Data, job.Corpus)
}

// place claims the folder to save, and opens what watches the run.
func (t *trainFlags) place(ctx context.Context, a *app, c *Command) (claim *checkpoint.Claim, err error) {
	a.saves = true
	if t.config.Out, claim, err = t.chooseOut(a, c); err != nil {
		return nil, err
	}
	if err := t.view.open(ctx, a, c, t.config.Out); err != nil {
		return nil, errors.Join(err, claim.Close())
	}
	if left := unfinished(t.config.Out); left != nil {
		a.note("%s: left by a run that was killed, and can be removed", strings.Join(left, ", "))
	}
	return claim, nil
}

// ready gathers what the flags say together with the files of --config and --resume, and
// checks it. It reports whether that is all there is to do, for --print-config.
func (t *trainFlags) ready(ctx context.Context, a *app, c *Command) (printed bool, err error) {
	if err := t.file.apply(c, a.note0); err != nil {
		return false, err
	}
	if err := t.adopt(c); err != nil {
		return false, err
	}
	if err := t.check(c); err != nil || !t.file.print {
		return false, err
	}
	if err := t.fitModel(c); err != nil {
		return false, err
	}
	if err := t.fitForPrint(ctx, a, c); err != nil {
		return false, err
	}
	return true, t.file.write(a.stdout, c)
}

// check validates everything that needs no file.
func (t *trainFlags) check(c *Command) error {
	if err := t.kernels.resolve(c); err != nil {
		return err
	}
	t.config.Kernels = t.kernels.kernels
	if err := cmp.Or(c.oneOf("log", t.log, progress.Formats()...), t.ranks.check(c), t.view.check(c)); err != nil {
		return err
	}
	switch {
	case t.noData && t.config.Model == "":
		return c.usagef("--model is missing: name the model folder to plan for")
	case t.noData:
	case t.config.Model != "" && len(t.config.Data.Paths) == 0:
		return c.usagef("--model is given without --data: name the text to train on, or leave both out for the built-in " +
			"example")
	case t.config.Model == "" && len(t.config.Data.Paths) > 0:
		return c.usagef("--data is given without --model: name the model folder to train, or leave both out for the " +
			"built-in example")
	case t.config.Model == "":
		if err := checkExample(c); err != nil {
			return err
		}
	}
	if t.config.Out == "" {
		return c.usagef("--out is empty: name the folder to save, or leave the flag out")
	}
	if t.config.Model == "" {
		t.config = demo.Config(t.config, t.changed)
	}
	return cmp.Or(c.notStdout("folder", "out"), c.notStdout("file", "ref-cache"),
		c.inUTF8("system", "add-tokens", "add-special-tokens"), c.misuse(t.config.Validate()), t.heeded(c))
}

// fitModel reads the model's config.json: whether there is one, and how long its
// sequences may be.
func (t *trainFlags) fitModel(c *Command) error {
	if t.config.Model == "" {
		return nil
	}
	config, err := c.readConfig(&t.config)
	if most := positions(config); t.file.cutoff && most > 1 && t.config.RowOf(most) < t.config.Seq {
		t.file.note("%s: cutoff_len: the model has %d positions, and rows as many tokens%s", t.file.path, most,
			map[bool]string{true: " for each answer"}[t.config.Preference.Enabled()])
		t.config.Seq = t.config.RowOf(most)
	}
	return err
}

// keepConfig puts the configuration into the folder that the run saves.
func (t *trainFlags) keepConfig(c *Command, job *trainer.Job) error {
	var text bytes.Buffer
	if err := t.file.write(&text, c); err != nil {
		return err
	}
	job.Files = append(job.Files, trainer.File{Name: runFile, Data: text.Bytes()})
	return nil
}

// noteWarmup says that a run never leaves its warm-up, or has none, which is hardly meant.
func (a *app) noteWarmup(s trainer.Start) {
	const all = "but the run has %s: all of it is warm-up"
	switch c, steps := s.Config, amount.Of(s.Steps, "step"); {
	case c.Warmup == 0 && c.WarmupRatio == 0:
	case c.Schedule == optim.Constant:
		a.note0("--schedule %s has no warm-up; %s has one", optim.Constant, optim.ConstantWithWarmup)
	case c.Warmup >= s.Steps:
		a.note0("--warmup is %d, "+all, c.Warmup, steps)
	case c.Warmup == 0 && math.Ceil(c.WarmupRatio*float64(s.Steps)) >= float64(s.Steps):
		a.note0("--warmup-ratio is %g, "+all, c.WarmupRatio, steps)
	}
}

// runJob runs a job and reports on it.
func (a *app) runJob(ctx context.Context, job *trainer.Job, reg *core.Registry, f progress.Format,
	example *demo.Demo, placed func(*core.Report) string) error {
	if err := checkSpareFiles(); err != nil {
		return err
	}
	memory.Save() // of what is loaded by now, most stays
	job.Registry, job.Measure.Logger, job.Measure.Limit, job.Abort = reg, a.logger(), measureLimit, a.abort
	text := a.stdout
	if f == progress.JSON && !a.follows() {
		text = a.stderr
	}
	if example != nil {
		fmt.Fprint(text, demoIntro)
		if err := checkDemo(ctx, text, example, "Unseen words before training"); err != nil {
			return err
		}
		fmt.Fprintln(text)
	}
	job.Hooks.OnWarning = func(err error) { a.note("warning: %v", plainfile.ExplainFiles(err)) }
	job.Hooks.OnCheckpoint = func(c trainer.Checkpoint) { a.checkpoint = c.Path }
	if job.Resume != nil && isNewestOf(job.Config.Out, job.Resume.Dir) {
		a.checkpoint = job.Resume.Dir
	}
	forget := func() bool { return true }
	defer func() { forget() }()
	job.Hooks.OnPatch = func(r *core.Report) {
		forget = context.AfterFunc(ctx, a.noteInterrupted)
		if job.Config.Kernels == "none" {
			fmt.Fprintln(text, "kernels: none, every site keeps its plain forward")
			return
		}
		fmt.Fprint(text, placed(r))
	}
	if !a.follows() {
		a.progress.Attach(&job.Hooks, f)
	}
	s, err := job.Run(ctx)
	if s == nil || s.Out == "" {
		return err
	}
	a.progress.Summary(s)
	a.printRanks(text, s)
	printHealth(text, reg)
	fmt.Fprintf(text, "  saved          %s\n", s.Out)
	if example != nil && !s.Interrupted {
		if err := checkDemo(ctx, text, example, "Unseen words after training"); err != nil {
			return err
		}
	}
	if s.Interrupted && s.Checkpoint != "" {
		fmt.Fprintf(text, "\nGo on with the run:\n  %s\n", a.resumeCommand())
	}
	a.printNext(text, job.Config, s, example != nil)
	return err
}

// noteInterrupted says what a run does that was interrupted.
func (a *app) noteInterrupted() {
	a.told.Store(true)
	if a.world != nil { // a launcher ends the ranks in the same way when one has died, and then kills them
		time.Sleep(headStart)
	}
	if !a.follows() {
		a.note("interrupted: finishing the step and saving; interrupt again to give up at once")
	}
}

// printHealth says what went wrong with plugins and was dealt with, if anything was.
func printHealth(w io.Writer, reg *core.Registry) {
	for _, k := range reg.Kernels() {
		h, i := core.HealthOf(k), k.Info()
		if h.Deaths+h.Repeats+h.Fallbacks+h.Copies == 0 {
			continue
		}
		fmt.Fprintf(w, "%s, %s: %s, %s, %s, %s to the plain form, %s copied\n", i.Name, i.Op, amount.Of(h.Calls, "call"),
			amount.Of(h.Deaths, "death"), amount.Of(h.Repeats, "repeat"), amount.Of(h.Fallbacks, "fall-back"),
			amount.Of(h.Copies, "tensor"))
		if h.LastError != "" {
			fmt.Fprintf(w, "  last error: %s\n", h.LastError)
		}
	}
}

// closing closes c when a function returns, and lets it tell of a failure.
func closing(c io.Closer, err *error) { *err = errors.Join(*err, c.Close()) }

// closingFailed is closing for a function that returns c, of one that has failed.
func closingFailed(c io.Closer, err *error) {
	if *err != nil {
		closing(c, err)
	}
}

// load reads the model and the data that the flags name. Without any it makes the
// built-in example, and returns that too.
func (t *trainFlags) load(ctx context.Context, mem core.Memory) (*trainer.Job, *demo.Demo, error) {
	if t.config.Model != "" {
		job, err := trainer.Load(ctx, t.config, mem)
		return job, nil, err
	}
	d, err := demo.New(t.config, mem)
	if err != nil {
		return nil, nil, err
	}
	return d.Job, d, nil
}
