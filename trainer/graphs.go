package trainer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/nn"
)

// graph is the model's graph for rows of one length.
type graph struct {
	*nn.Compiled
	likeliest *autograd.Value // nil unless somebody looks at the likeliest tokens
	tried     int             // the round of comparisons, from 1 on, that a step was tried for; see Engine.stepAtOnce
}

// graphs are the model's graph for rows of seq tokens and, in its memory, those for shorter rows. Each of these is made
// when a batch first has rows that are no longer.
type graphs struct {
	lengths []int    // ascending; the last is that of the longest rows
	of      []*graph // of each length; nil until it is made
	compile func(seq int, within *autograd.Program) (*graph, error)
}

// newGraphs makes the graph for rows of seq tokens.
func newGraphs(seq int, shorter []int, compile func(seq int, within *autograd.Program) (*graph, error)) (*graphs, error) {
	g := &graphs{compile: compile}
	for _, n := range shorter {
		if n < seq {
			g.lengths = append(g.lengths, n)
		}
	}
	g.lengths = append(g.lengths, seq)
	g.of = make([]*graph, len(g.lengths))
	longest, err := compile(seq, nil)
	g.of[len(g.of)-1] = longest
	return g, err
}

// longest returns the graph for the longest rows; nil without any graph.
func (g *graphs) longest() *graph {
	if g == nil {
		return nil
	}
	return g.of[len(g.of)-1]
}

// fit cuts a batch to the least length that its rows need, of those that there are, and makes the graph for it.
// A length for which the graph is of other operations is there no more.
func (g *graphs) fit(b data.Batch) (data.Batch, error) {
	if len(g.lengths) == 1 || b.S != g.lengths[len(g.lengths)-1] {
		return b, nil
	}
	longest := b.Longest()
	for i := 0; ; i++ {
		if g.lengths[i] < longest {
			continue
		}
		if g.of[i] == nil {
			of, err := g.compile(g.lengths[i], g.longest().Program)
			if errors.Is(err, autograd.ErrUnlike) {
				g.lengths, g.of = slices.Delete(g.lengths, i, i+1), slices.Delete(g.of, i, i+1)
				i--
				continue
			}
			if err != nil {
				return b, err
			}
			g.of[i] = of
		}
		return b.Cut(g.lengths[i]), nil
	}
}

// at returns the graph for rows of so many tokens; for any other number that of the longest, which will refuse them.
func (g *graphs) at(seq int) *graph {
	for i, n := range g.lengths {
		if n == seq && g.of[i] != nil {
			return g.of[i]
		}
	}
	return g.longest()
}

// close gives the memory of all graphs back.
func (g *graphs) close() {
	if g == nil {
		return
	}
	for _, of := range g.of { // the longest, which has the memory, last
		if of != nil {
			of.Close()
		}
	}
}

// graph makes a training graph, in memory of its own unless it is within another one.
func (e *Engine) graph(seq int, within *autograd.Program) (*graph, error) {
	c, err := nn.NewContext(e.mem, e.cfg.Batch, seq, e.cfg.positions(seq))
	if err != nil {
		return nil, err
	}
	c.G.Within(within)
	c.Checkpoint, c.CheckpointParts = e.cfg.GradientCheckpointing, e.cfg.CheckpointParts
	c.Training, c.Watch = true, e.cfg.Check.Watch
	if e.cfg.Accumulate > 1 {
		c.Sums = &e.host
	}
	if e.judge != nil {
		c.Weigh = e.judge.weigh
	}
	if e.cfg.UpdateInBackward {
		c.Update = e.updates()
	}
	program, err := e.model.Compile(c, e.model.Forward(c).Loss, false)
	if err != nil {
		return nil, err
	}
	return &graph{Compiled: program}, nil
}

// positions returns below what the positions of rows of so many tokens stay.
func (c EngineConfig) positions(seq int) int {
	if c.MaxPosition > c.Seq { // rows may begin anywhere
		return c.MaxPosition
	}
	return min(seq, c.MaxPosition)
}

// fit cuts the batches of a step to the lengths that they need.
func (e *Engine) fit(batches []data.Batch) ([]data.Batch, error) {
	if n := len(batches); n < 1 || n > e.cfg.Accumulate {
		return nil, fmt.Errorf("trainer: a step takes up to %d batches, got %d", e.cfg.Accumulate, n)
	}
	batches = slices.Clone(batches)
	for i, b := range batches {
		err := b.Valid()
		if err == nil {
			batches[i], err = e.graphs.fit(b)
		}
		if err != nil {
			return nil, fmt.Errorf("trainer: batch %d of the step: %w", i, err)
		}
	}
	return batches, nil
}
