package generate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// firstPositions is for how many tokens of a sequence graphs have tables at first.
const firstPositions = 256

// pieces are the numbers of tokens of one sequence that graphs read at a time. As long as a prompt fills the
// largest, or in company the next, it is cut into those; what is left is read by the smallest graph that takes it
// whole.
var pieces = []int{1, 16, inCompany, alone}

// The largest pieces of a prompt while other texts wait for their next token, and while none does. Attention computes
// as many tokens at a time in both, and products give a row the same bits, so that it does not matter which.
const inCompany, alone = 128, 512

// batches are the numbers of sequences of which graphs read one token each.
var batches = []int{1, 2, 4, 8, 16}

// form tells the graphs of a reader apart.
type form struct {
	rows int
	each bool // rows are of as many sequences, and there are logits after each
	last bool // there are logits: no more of a prompt follows
}

// formOf returns that of the smallest graph that takes these pieces: several tokens of one sequence, or one token
// of each.
func formOf(p []nn.Piece, last bool) form {
	n, sizes := len(p), batches
	each := len(p[0].IDs) == 1
	if !each {
		n, sizes = len(p[0].IDs), pieces
	}
	for _, size := range sizes {
		if size >= n {
			return form{size, each, last}
		}
	}
	return form{sizes[len(sizes)-1], each, last}
}

// pieceOf returns how many of the tokens of a prompt that are left are read next, at most so many.
func pieceOf(left, most int) int {
	if left >= most {
		return most
	}
	return min(left, inCompany)
}

// graph reads tokens.
type graph struct {
	*nn.Compiled
	logits *autograd.Value // [1, V] after the last token, or [rows, V]; nil unless it is the last
}

// reader lets a model read tokens of sequences of a cache. Its graphs are made when they are first needed.
type reader struct {
	model     *models.Model
	mem       core.Memory
	limit     int // tokens of a sequence
	cache     *nn.Cache
	positions int // that graphs have tables for
	graphs    map[form]*graph
	check     *crosscheck.Checker
	report    *core.Report // of the kernels that check may take off
	sound     bool         // the largest of the last logits is a finite number
}

// newReader returns one for sequences of at most limit tokens, with a cache of at most so many blocks of so many.
func newReader(m *models.Model, mem core.Memory, limit, size, blocks int) *reader {
	m.Paged(size)
	return &reader{model: m, mem: mem, limit: limit, cache: nn.NewCache(mem, size, blocks),
		positions: min(firstPositions, limit), graphs: map[form]*graph{}}
}

// limitOf returns how many tokens a sequence can have: 0, or more than the model has positions, means as many as
// it has.
func limitOf(m *models.Model, limit int) int {
	if most := m.Config.MaxPositionEmbeddings; limit <= 0 || limit > most {
		return most
	}
	return limit
}

// read reads several tokens of one sequence, or one of each of some, which have room for them. If they are the last
// of their prompts it returns the logits after the last, or after each, valid until the next call; they may not be
// finite.
func (r *reader) read(ctx context.Context, last bool, p ...nn.Piece) ([]float32, error) {
	r.check.Tick()
	for _, q := range p {
		if n := q.Len() + len(q.IDs); n > r.positions { // at least doubled, so that graphs are made again a few times
			r.closeGraphs()
			r.positions = min(r.limit, max(n, 2*r.positions))
		}
	}
	var g *graph
	run := func() error {
		return r.check.Rightly(r.report, r.repatch, func() (err error) {
			if g, err = r.graph(formOf(p, last)); err != nil {
				return err
			}
			if err = r.cache.Fill(g.Batch, p...); err == nil {
				var most float64
				most, err = g.Forward(ctx)
				r.sound = !math.IsNaN(most) && !math.IsInf(most, 0)
			}
			return err
		})
	}
	err := run()
	if err == nil && !r.sound && r.check != nil { // it may be of a kernel that was right before
		r.check.Again()
		err = run()
	}
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	if g.logits == nil {
		return nil, nil
	}
	return g.Tensor(g.logits).Float32s(), nil
}

// graph returns the one of that form.
func (r *reader) graph(f form) (*graph, error) {
	if g := r.graphs[f]; g != nil {
		return g, nil
	}
	c, err := nn.NewCachedContext(r.mem, r.cache, f.rows, r.positions, f.each)
	if err != nil {
		return nil, err
	}
	c.Watch, c.Silent = r.check.Watch, !f.last
	out := r.model.Forward(c)
	if f.last {
		out.Logits.Keep()
	}
	program, err := r.model.Compile(c, out.Loss, true)
	if err != nil {
		return nil, err
	}
	g := &graph{program, out.Logits}
	r.graphs[f] = g
	return g, nil
}

// finite reports what is wrong with logits that read returned, after so many tokens.
func (r *reader) finite(logits []float32, tokens int) error {
	if r.sound { // which is known without another look at all of them
		return nil
	}
	if v := float64(slices.Max(logits)); math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("generate: after %d tokens the largest logit is %g: the model's weights are damaged, or "+
			"they overflow", tokens, v)
	}
	return nil
}

// repatch lets the kernels be changed between two runs. The graphs are made again when they
// are needed.
func (r *reader) repatch(change func() error) error {
	r.closeGraphs()
	return change()
}

func (r *reader) closeGraphs() {
	for _, g := range r.graphs {
		g.Close()
	}
	clear(r.graphs)
}

// close gives the memory back and lets the model be patched again.
func (r *reader) close() {
	r.closeGraphs()
	r.cache.Free()
}
