package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/models"
)

// writingEngine is a model that writes several texts at once.
type writingEngine struct {
	*inference
	engine   *generate.Engine
	defaults generate.Defaults // what its folder says, with the tokenizer's end token
}

// engineSize is how large an engine is to be.
type engineSize struct {
	generate.EngineConfig
	cacheTokens int // 0 for as many as there is memory for
}

func (s *engineSize) add(f *pflag.FlagSet, of string) {
	f.IntVar(&s.MaxSequences, "max-sequences", 0, "the most "+of+" to write at the same time; 0 for 16")
	f.IntVar(&s.cacheTokens, "cache-tokens", 0, "the most `TOKENS` of all texts together that the cache has room for; "+
		"0 for as many as half of the free memory takes")
}

func (s *engineSize) check(c *Command) error {
	switch {
	case s.MaxSequences < 0:
		return c.usagef("--max-sequences is %d, must not be negative", s.MaxSequences)
	case s.cacheTokens < 0:
		return c.usagef("--cache-tokens is %d, must not be negative", s.cacheTokens)
	}
	return nil
}

// cacheBlock is how many tokens share a block of the cache.
const cacheBlock = 16

// config returns the size for a model: the engine's own is as many blocks as all texts can come to have, which it
// takes one after the other, rather than forget what a text to come may begin with.
func (s *engineSize) config(m *models.Model) generate.EngineConfig {
	e := s.EngineConfig
	e.BlockSize = cacheBlock
	if s.cacheTokens > 0 {
		e.Blocks = (s.cacheTokens + cacheBlock - 1) / cacheBlock
		return e
	}
	positions := m.Config.MaxPositionEmbeddings
	if e.Limit > 0 {
		positions = min(positions, e.Limit)
	}
	all := cmp.Or(e.MaxSequences, 16) * ((positions + cacheBlock - 1) / cacheBlock)
	bytes := int64(cacheBlock) * int64(m.Config.NumHiddenLayers*m.Decoder.CacheBytes())
	e.Blocks = all
	if free := memory.Available(); free > 0 { // 0 where nothing tells
		e.Blocks = int(max(1, min(int64(all), free/2/bytes)))
	}
	return e
}

// noteIgnored says what of the model's generation_config.json is not heeded.
func (a *app) noteIgnored(dir string, quiet bool) error {
	ignored, err := generate.Ignored(dir)
	if len(ignored) > 0 && !quiet {
		a.note("warning: %s is not heeded, with which transformers would write something else: %s",
			filepath.Join(dir, "generation_config.json"), strings.Join(ignored, ", "))
	}
	return err
}

// openEngine reads the model of the flags, with some adapters beside it, and starts its kernels. The caller
// closes what it returns.
func (a *app) openEngine(ctx context.Context, c *Command, g *inferenceFlags, size engineSize, quiet bool,
	beside ...namedAdapter) (_ *writingEngine, err error) {
	e := &writingEngine{}
	defer closingFailed(e, &err)
	if e.defaults, err = generate.LoadDefaults(g.Model); err != nil {
		return nil, err
	}
	if err = a.noteIgnored(g.Model, quiet); err != nil {
		return nil, err
	}
	if e.inference, err = g.open(ctx, a, c); err != nil {
		return nil, err
	}
	for _, b := range beside {
		if err = e.model.AddVariant(b.name, b.dir); err != nil {
			return nil, fmt.Errorf("--adapter: %w", err)
		}
	}
	if id, ok := e.tokenizer.EOS(); ok && !slices.Contains(e.defaults.EOS, id) {
		e.defaults.EOS = append(e.defaults.EOS, id)
	}
	if e.engine, err = generate.NewEngine(e.model, e.tokenizer, e.memory, size.config(e.model)); err != nil {
		return nil, err
	}
	report, err := e.place(ctx, a, g, measure.Run{Batch: 1, Seq: 1, MaxPosition: e.engine.Limit(), Plain: withoutKernel})
	if err != nil {
		return nil, err
	}
	if report != nil && !quiet {
		fmt.Fprint(a.stderr, g.kernels.placed(report))
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
