package main

import (
	"context"
	"errors"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/serve"
)

// served are the models of a server.
type served []servedModel

type servedModel struct {
	*writingEngine
	serve.Model
}

// openServed reads the model and its adapters. The caller closes what it returns, also beside an error.
func (a *app) openServed(ctx context.Context, c *Command, f *serveFlags) (served, error) {
	var all served
	f.size.engines = len(f.models)
	for _, named := range f.models {
		g := f.inferenceFlags
		g.LoRA.Adapter = named.adapter
		e, err := a.openEngine(ctx, c, &g, f.size, f.quiet)
		if err != nil {
			return all, err
		}
		m := servedModel{e, serve.Model{Name: named.name, Engine: e.engine, Tokenizer: e.tokenizer,
			Sampling: e.defaults.Sampling, EOS: e.defaults.EOS}}
		all = append(all, m)
		if all[len(all)-1].Template, err = a.servedTemplate(e, &g, f.template); err != nil {
			return all, err
		}
	}
	return all, nil
}

// servedTemplate returns that of a model, nil if it has none.
func (a *app) servedTemplate(e *writingEngine, g *inferenceFlags, name string) (*chat.Template, error) {
	t, err := trainer.ChatTemplate(g.Model, g.LoRA.Adapter, name)
	if errors.Is(err, chat.ErrNoTemplate) {
		a.note("there is no chat template, so that conversations are refused; --template names a built-in one")
		return nil, nil
	}
	if err == nil {
		a.noteMissing(name, t.Missing(e.tokenizer.Encode))
	}
	return t, err
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
