package generate

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// ErrFull is wrapped by the error of a session that has no room for more tokens.
var ErrFull = errors.New("the session is full")

// firstRoom is the number of tokens that the cache has room for at first.
const firstRoom = 256

// pieces are the numbers of tokens that graphs read at a time. A prompt is cut into the
// largest; what is left of it is read by the smallest graph that takes it whole.
var pieces = [...]int{1, 16, 128}

// Session is one sequence of tokens that a model reads, and the graphs that read it. The
// cache grows with the sequence. Patch the model before the first Feed; Close the session
// before patching again. It is not safe for concurrent use.
type Session struct {
	model  *models.Model
	mem    core.Memory
	limit  int // tokens
	cache  *nn.Cache
	tokens []int32
	graphs map[int]*graph // by the size of the piece
	check  *crosscheck.Checker
	report *core.Report // of the kernels that check may take off
}

// graph reads a piece.
type graph struct {
	*nn.Compiled
	logits *autograd.Value // [1, V], after the last token
}

// NewSession returns an empty session for at most limit tokens; 0, or more than the model
// has positions, means as many as it has. Its memory is taken from mem.
func NewSession(m *models.Model, mem core.Memory, limit int) *Session {
	most := m.Config.MaxPositionEmbeddings
	if limit <= 0 || limit > most {
		limit = most
	}
	return &Session{model: m, mem: mem, limit: limit, cache: nn.NewCache(mem, min(firstRoom, limit)),
		graphs: map[int]*graph{}}
}

// Check compares what the kernels of the report give with the plain forward, and takes one
// that is wrong off; the piece at hand is then read again. Pieces are what the checker counts
// by. Call it before the first Feed.
func (s *Session) Check(c *crosscheck.Checker, report *core.Report) { s.check, s.report = c, report }

// Limit returns the number of tokens that the session can hold.
func (s *Session) Limit() int { return s.limit }

// Tokens returns the tokens read so far. Do not change them.
func (s *Session) Tokens() []int32 { return s.tokens }

// CacheBytes returns the memory that the keys and values take.
func (s *Session) CacheBytes() int { return s.cache.Bytes() }

// Truncate forgets all tokens but the first n.
func (s *Session) Truncate(n int) {
	s.cache.Truncate(n)
	s.tokens = s.tokens[:s.cache.Len()]
}

// Feed lets the model read more tokens and returns the logits of the token that follows
// them, valid until the next call. When ctx ends, the tokens that were read by then stay.
func (s *Session) Feed(ctx context.Context, ids []int32) ([]float32, error) {
	if len(ids) == 0 {
		return nil, errors.New("generate: no tokens to read")
	}
	if n := len(s.tokens) + len(ids); n > s.limit {
		return nil, fmt.Errorf("generate: %w: %d tokens, room for %d", ErrFull, n, s.limit)
	}
	if err := s.reserve(len(s.tokens) + len(ids)); err != nil {
		return nil, err
	}
	var logits []float32
	for len(ids) > 0 {
		n := min(len(ids), pieces[len(pieces)-1])
		var err error
		if logits, err = s.read(ctx, ids[:n]); err != nil {
			return nil, err
		}
		ids = ids[n:]
	}
	return logits, nil
}

// reserve makes room for n tokens in all, at least doubling it, so that a sequence is
// moved only a few times.
func (s *Session) reserve(n int) error {
	if n <= s.cache.Cap() {
		return nil
	}
	s.closeGraphs() // they have tables of the old size
	if err := s.cache.Grow(min(s.limit, max(n, 2*s.cache.Cap()))); err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	return nil
}

// read runs one piece.
func (s *Session) read(ctx context.Context, ids []int32) ([]float32, error) {
	s.check.Tick()
	var g *graph
	var largest float64
	err := s.check.Rightly(s.report, s.repatch, func() (err error) {
		if g, err = s.graph(len(ids)); err != nil {
			return err
		}
		if err = s.cache.Fill(g.Batch, ids); err == nil {
			largest, err = g.Forward(ctx)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	if math.IsNaN(largest) || math.IsInf(largest, 0) {
		return nil, fmt.Errorf("generate: after %d tokens the largest logit is %g: the model's weights are damaged, or "+
			"they overflow", len(s.tokens)+len(ids), largest)
	}
	s.cache.Advance()
	s.tokens = append(s.tokens, ids...)
	return g.Tensor(g.logits).Float32s(), nil
}

// graph returns the smallest that reads n tokens at once.
func (s *Session) graph(n int) (*graph, error) {
	size := pieces[len(pieces)-1]
	for _, p := range pieces {
		if p >= n {
			size = p
			break
		}
	}
	if g := s.graphs[size]; g != nil {
		return g, nil
	}
	c, err := nn.NewCachedContext(s.mem, s.cache, size)
	if err != nil {
		return nil, err
	}
	c.Watch = s.check.Watch
	out := s.model.Forward(c)
	out.Logits.Keep()
	program, err := s.model.Compile(c, out.Loss, true)
	if err != nil {
		return nil, err
	}
	g := &graph{program, out.Logits}
	s.graphs[size] = g
	return g, nil
}

// repatch lets the kernels be changed between two runs. The graphs are made again when they
// are needed.
func (s *Session) repatch(change func() error) error {
	s.closeGraphs()
	return change()
}

func (s *Session) closeGraphs() {
	for _, g := range s.graphs {
		g.Close()
	}
	clear(s.graphs)
}

// Close gives the memory back and lets the model be patched again.
func (s *Session) Close() {
	s.closeGraphs()
	s.cache.Free()
	s.tokens = nil
}
