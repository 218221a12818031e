package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// inferenceFlags are the flags of the commands that use a model without training it.
type inferenceFlags struct {
	model      string
	adapter    string
	kernels    kernelFlags
	checkEvery int
	strict     bool
	threads    int
}

func (f *inferenceFlags) addModel(s *pflag.FlagSet) {
	s.StringVar(&f.model, "model", "", "the model `FOLDER`")
	s.StringVar(&f.adapter, "adapter", "", "the `FOLDER` of an adapter to put on the model, as tune train --lora-rank or PEFT has saved it")
}

func (f *inferenceFlags) addMachine(s *pflag.FlagSet, counted string) {
	f.kernels.add(s, "none")
	f.checkEvery = trainer.Default().CheckEvery
	addCheck(s, &f.checkEvery, counted)
	addStrict(s, &f.strict)
	addThreads(s, &f.threads)
}

// check validates what needs no file.
func (f *inferenceFlags) check(c *Command) error {
	switch {
	case f.model == "":
		return c.usagef("--model is not given: name a model folder")
	case f.checkEvery < 0:
		return c.usagef("--check-every is %d, must not be negative", f.checkEvery)
	}
	if err := c.checkThreads(f.threads); err != nil {
		return err
	}
	return f.kernels.resolve(c)
}

// inference is a model in memory that is used without training it.
type inference struct {
	model     *models.Model
	tokenizer *tokenizer.Tokenizer
	memory    transport.Memory
	registry  *core.Registry // nil without kernels
	check     *crosscheck.Checker
	report    *core.Report // which kernel went where; nil without kernels
}

// open reads the model and starts the kernels. The caller closes what it returns.
func (f *inferenceFlags) open(ctx context.Context, a *app) (_ *inference, err error) {
	simd.SetThreads(f.threads)
	if _, err := readConfig(f.model); err != nil {
		return nil, err
	}
	in := &inference{}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.Close())
		}
	}()
	if in.tokenizer, err = tokenizer.Load(f.model); err != nil {
		return nil, cmp.Or(models.Verify(f.model, f.adapter), err)
	}
	if in.memory, err = newMemory(); err != nil {
		return nil, err
	}
	if in.model, err = f.loadModel(in.memory); err != nil {
		return nil, err
	}
	if n := in.tokenizer.VocabSize(); n > in.model.Vocab() {
		return nil, fmt.Errorf("%s: the tokenizer has %d tokens, but the model's vocab_size is %d: they do not belong together", f.model, n, in.model.Vocab())
	}
	in.registry, err = f.kernels.open(ctx, a, transport.Options{Threads: f.threads, Strict: f.strict})
	return in, err
}

// loadModel reads the model, and the adapter if there is one.
func (f *inferenceFlags) loadModel(mem core.Memory) (*models.Model, error) {
	return models.LoadWith(f.model, mem, models.LoadOptions{Frozen: true, LoRA: lora.Config{Adapter: f.adapter}})
}

// place puts the kernels on the model's sites, as for a run of that size, and says which.
// It returns nil without kernels.
func (in *inference) place(ctx context.Context, a *app, f *inferenceFlags, run measure.Run) (*core.Report, error) {
	if in.registry == nil {
		return nil, nil
	}
	run.Memory, run.Inference = in.memory, true
	plan, err := measure.Plan(ctx, in.model, in.registry, f.kernels.kernels, run, measure.Options{Logger: a.logger()})
	if err != nil {
		return nil, f.kernels.blame(err)
	}
	in.check = a.checker(f.checkEvery, f.strict)
	in.report, err = plan.Apply()
	return in.report, err
}

// Close ends the kernels and gives the memory back.
func (in *inference) Close() error {
	var errs []error
	if in.registry != nil {
		errs = append(errs, in.registry.Close())
	}
	if in.memory != nil {
		errs = append(errs, in.memory.Close())
	}
	return errors.Join(errs...)
}
