package main

import (
	"context"
	"errors"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/serve"
)

// served is what a server answers with: an engine, and what clients may ask of it.
type served struct {
	*writingEngine
	models []serve.Model
}

// openServed reads the model and its adapters. The caller closes what it returns, also beside an error.
func (a *app) openServed(ctx context.Context, c *Command, f *serveFlags) (*served, error) {
	s := &served{}
	var err error
	if s.writingEngine, err = a.openEngine(ctx, c, &f.inferenceFlags, f.size, f.quiet, f.beside...); err != nil {
		return s, err
	}
	m := serve.Model{Name: f.name, Engine: s.engine, Tokenizer: s.tokenizer, Sampling: s.defaults.Sampling,
		EOS: s.defaults.EOS}
	for _, b := range append([]namedAdapter{{f.name, ""}}, f.beside...) {
		if m.Name = b.name; b.dir != "" {
			m.Adapter = b.name
		}
		if m.Template, err = a.servedTemplate(s.writingEngine, f.Model, b, f.template); err != nil {
			return s, err
		}
		s.models = append(s.models, m)
	}
	return s, nil
}

// servedTemplate returns that of the model or of an adapter, nil if it has none.
func (a *app) servedTemplate(e *writingEngine, model string, of namedAdapter, name string) (*chat.Template, error) {
	t, err := trainer.ChatTemplate(model, of.dir, name)
	if errors.Is(err, chat.ErrNoTemplate) {
		a.note("%s has no chat template, so that it refuses conversations; --template names a built-in one", of.name)
		return nil, nil
	}
	if err == nil {
		a.noteMissing(name, t.Missing(e.tokenizer.Encode))
	}
	return t, err
}

// Close gives everything back.
func (s *served) Close() error {
	if s.writingEngine == nil {
		return nil
	}
	return s.writingEngine.Close()
}

func (s *served) names() []string {
	var all []string
	for _, m := range s.models {
		all = append(all, m.Name)
	}
	return all
}
