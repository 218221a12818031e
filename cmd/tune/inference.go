package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// inferenceFlags are the flags of the commands that use a model without training it: what of a
// training run's configuration these have, too.
type inferenceFlags struct {
	trainer.Config
	kernels kernelFlags
}

func newInferenceFlags() inferenceFlags { return inferenceFlags{Config: trainer.Default()} }

func (f *inferenceFlags) addModel(s *pflag.FlagSet) {
	s.StringVar(&f.Model, "model", "", "the model `FOLDER`")
	s.StringVar(&f.LoRA.Adapter, "adapter", "", "the `FOLDER` of an adapter to put on the model, "+
		"as tune train --lora-rank or PEFT has saved it")
}

func (f *inferenceFlags) addMachine(s *pflag.FlagSet, counted string) {
	f.kernels.add(s, "none")
	f.kernels.addVerbose(s)
	addCheck(s, &f.CheckEvery, counted)
	addStrict(s, &f.Strict)
	addThreads(s, &f.Threads)
}

// check validates what needs no file.
func (f *inferenceFlags) check(c *Command) error {
	if f.Model == "" {
		return c.usagef("--model is not given: name a model folder")
	}
	return cmp.Or(c.misuse(f.Validate()), f.kernels.resolve(c))
}

// inference is a model in memory that is used without training it.
type inference struct {
	model     *models.Model
	tokenizer *tokenizer.Tokenizer
	memory    transport.Memory
	registry  *core.Registry
	check     *crosscheck.Checker
	report    *core.Report // which kernel went where; nil without kernels
	stderr    io.Writer    // is told what went wrong with plugins
}

// open reads the model and starts the kernels. The caller closes what it returns.
func (f *inferenceFlags) open(ctx context.Context, a *app, c *Command) (_ *inference, err error) {
	simd.SetThreads(f.Threads)
	if _, err := c.readConfig(&f.Config); err != nil {
		return nil, err
	}
	in := &inference{stderr: a.stderr}
	defer closingFailed(in, &err)
	if in.tokenizer, _, err = trainer.LoadTokenizer(f.Model, f.LoRA.Adapter); err != nil {
		return nil, cmp.Or(models.Verify(f.Model, f.LoRA.Adapter), err)
	}
	// What is wrong with the kernels is said before the weights are read.
	in.registry, err = f.kernels.open(ctx, a, transport.Options{Threads: f.Threads, Strict: f.Strict})
	if err != nil {
		return nil, err
	}
	if in.memory, err = memoryFor(f.kernels.kernels); err != nil {
		return nil, err
	}
	options := models.LoadOptions{Frozen: true, LoRA: lora.Config{Adapter: f.LoRA.Adapter},
		Check: func(m *models.Model) error { return f.holds(m, memory.Total()) }}
	if in.model, err = models.LoadWith(f.Model, in.memory, options); err != nil {
		return nil, err
	}
	if n := in.tokenizer.VocabSize(); n > in.model.Vocab() {
		return nil, fmt.Errorf("%s: the tokenizer has %d tokens, but the model's vocab_size is %d: they do not belong "+
			"together", f.Model, n, in.model.Vocab())
	}
	return in, nil
}

// holds refuses a model whose weights take more memory than there is in all, 0 for unknown, before they are read.
func (f *inferenceFlags) holds(m *models.Model, total int64) error {
	var need int64
	for _, p := range m.Params() {
		need += p.Bytes()
	}
	if total == 0 || need <= total {
		return nil
	}
	return fmt.Errorf("%s: the weights take %s of memory, and there are %s in all: take a smaller model, or a "+
		"machine with more memory", f.Model, amount.Bytes(need), amount.Bytes(total))
}

// place puts the kernels on the model's sites, as for a run of that size, and says which.
// It returns nil without kernels.
func (in *inference) place(ctx context.Context, a *app, f *inferenceFlags, run measure.Run) (*core.Report, error) {
	if f.kernels.kernels == "none" {
		return nil, nil
	}
	run.Memory, run.Inference = in.memory, true
	plan, err := measure.Plan(ctx, in.model, in.registry, f.kernels.kernels, run, measure.Options{Logger: a.logger(),
		Limit: measureLimit})
	if err != nil {
		return nil, f.kernels.blame(err)
	}
	in.check = a.checker(f.CheckEvery, f.Strict)
	in.report, err = plan.Apply()
	return in.report, err
}

// Close ends the kernels and gives the memory back. It says what went wrong with plugins and was dealt with.
func (in *inference) Close() error {
	printHealth(in.stderr, in.registry)
	err := in.registry.Close()
	if in.memory != nil {
		err = errors.Join(err, in.memory.Close())
	}
	return err
}
