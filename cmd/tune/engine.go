package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/measure"
)

// writingEngine is a model that writes several texts at once.
type writingEngine struct {
	*inference
	engine   *generate.Engine
	defaults generate.Defaults // what its folder says, with the tokenizer's end token
}

// openEngine reads the model of the flags and starts its kernels. The caller closes what it returns.
func (a *app) openEngine(ctx context.Context, c *Command, g *inferenceFlags, size generate.EngineConfig,
	quiet bool) (_ *writingEngine, err error) {
	e := &writingEngine{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if e.defaults, err = generate.LoadDefaults(g.Model); err != nil {
		return nil, err
	}
	if e.inference, err = g.open(ctx, a, c); err != nil {
		return nil, err
	}
	if id, ok := e.tokenizer.EOS(); ok && !slices.Contains(e.defaults.EOS, id) {
		e.defaults.EOS = append(e.defaults.EOS, id)
	}
	if e.engine, err = generate.NewEngine(e.model, e.tokenizer, e.memory, size); err != nil {
		return nil, err
	}
	report, err := e.place(ctx, a, g, measure.Run{Batch: 1, Seq: 1, MaxPosition: e.engine.Limit(), Plain: withoutKernel})
	if err != nil {
		return nil, err
	}
	if report != nil && !quiet {
		fmt.Fprint(a.stderr, report)
	}
	e.engine.Check(e.check, report)
	return e, nil
}

// Close gives everything back.
func (e *writingEngine) Close() error {
	if e.engine != nil {
		e.engine.Close()
	}
	if e.inference == nil {
		return nil
	}
	return e.inference.Close()
}
