package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/serve"
)

// served are the models of a server.
type served []*servedModel

type servedModel struct {
	*inference
	engine *generate.Engine
	serve.Model
}

// openServed reads the model and its adapters. The caller closes what it returns, also beside an error.
func (a *app) openServed(ctx context.Context, c *Command, f *serveFlags) (served, error) {
	var all served
	for _, named := range f.models {
		flags := f.inferenceFlags
		flags.LoRA.Adapter = named.adapter
		m, err := a.openEngine(ctx, c, f, &flags)
		if err != nil {
			return all, err
		}
		m.Name = named.name
		all = append(all, m)
	}
	return all, nil
}

// openEngine reads one model, with an adapter if the flags have one.
func (a *app) openEngine(ctx context.Context, c *Command, f *serveFlags, g *inferenceFlags) (_ *servedModel,
	err error) {
	m := &servedModel{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	defaults, err := generate.LoadDefaults(g.Model)
	if err != nil {
		return nil, err
	}
	m.Sampling, m.EOS = defaults.Sampling, defaults.EOS
	if m.inference, err = g.open(ctx, a, c); err != nil {
		return nil, err
	}
	if id, ok := m.tokenizer.EOS(); ok && !slices.Contains(m.EOS, id) {
		m.EOS = append(m.EOS, id)
	}
	m.Template, err = trainer.ChatTemplate(g.Model, g.LoRA.Adapter, f.template)
	switch {
	case errors.Is(err, chat.ErrNoTemplate):
		a.note("there is no chat template, so that conversations are refused; --template names a built-in one")
	case err != nil:
		return nil, err
	default:
		a.noteMissing(f.template, m.Template.Missing(m.tokenizer.Encode))
	}
	if m.engine, err = generate.NewEngine(m.inference.model, m.tokenizer, m.memory, f.engine); err != nil {
		return nil, err
	}
	m.Engine, m.Tokenizer = m.engine, m.tokenizer
	report, err := m.place(ctx, a, g, measure.Run{Batch: 1, Seq: 1, MaxPosition: m.engine.Limit(), Plain: withoutKernel})
	if err != nil {
		return nil, err
	}
	if report != nil && !f.quiet {
		fmt.Fprint(a.stderr, report)
	}
	m.engine.Check(m.check, report)
	return m, nil
}

// Close gives everything back.
func (m *servedModel) Close() error {
	if m.engine != nil {
		m.engine.Close()
	}
	if m.inference == nil {
		return nil
	}
	return m.inference.Close()
}

// Close gives everything back.
func (s served) Close() error {
	var errs []error
	for _, m := range s {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

func (s served) models() []serve.Model {
	var all []serve.Model
	for _, m := range s {
		all = append(all, m.Model)
	}
	return all
}

func (s served) names() []string {
	var all []string
	for _, m := range s {
		all = append(all, m.Name)
	}
	return all
}
