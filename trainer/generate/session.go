package generate

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// ErrFull is wrapped by the error of a session or an engine that has no room for so many tokens.
var ErrFull = errors.New("the session is full")

// blockSize is how many tokens a block of a cache has room for, unless somebody says otherwise.
const blockSize = 16

// Session is one sequence of tokens that a model reads, and the graphs that read it. The
// cache grows with the sequence. Patch the model before the first Feed; Close the session
// before patching again. It is not safe for concurrent use.
type Session struct {
	*reader
	sequence *nn.Sequence
	closed   bool
}

// NewSession returns an empty session for at most limit tokens; 0, or more than the model
// has positions, means as many as it has. Its memory is taken from mem.
func NewSession(m *models.Model, mem core.Memory, limit int) *Session {
	limit = limitOf(m, limit)
	r := newReader(m, mem, limit, blockSize, (limit+blockSize-1)/blockSize)
	return &Session{reader: r, sequence: r.cache.NewSequence()}
}

// Check compares what the kernels of the report give with the plain forward, and takes one
// that is wrong off; the piece at hand is then read again. Pieces are what the checker counts
// by. Call it before the first Feed.
func (s *Session) Check(c *crosscheck.Checker, report *core.Report) { s.check, s.report = c, report }

// Limit returns the number of tokens that the session can hold.
func (s *Session) Limit() int { return s.limit }

// Tokens returns the tokens read so far. Do not change them.
func (s *Session) Tokens() []int32 { return s.sequence.Tokens() }

// CacheBytes returns the memory that the keys and values take.
func (s *Session) CacheBytes() int { return s.cache.Bytes() }

// Truncate forgets all tokens but the first n.
func (s *Session) Truncate(n int) { s.sequence.Truncate(n) }

// Feed lets the model read more tokens and returns the logits of the token that follows
// them, valid until the next call. When ctx ends, the tokens that were read by then stay.
func (s *Session) Feed(ctx context.Context, ids []int32) ([]float32, error) {
	if s.closed {
		return nil, fmt.Errorf("generate: the session is %w", ErrClosed)
	}
	if len(ids) == 0 {
		return nil, errors.New("generate: no tokens to read")
	}
	if n := s.sequence.Len() + len(ids); n > s.limit {
		return nil, fmt.Errorf("generate: %w: %d tokens, room for %d", ErrFull, n, s.limit)
	}
	var logits []float32
	for len(ids) > 0 {
		p := nn.Piece{Sequence: s.sequence, IDs: ids[:pieceOf(len(ids), alone)]}
		err := s.sequence.Reserve(len(p.IDs))
		if err == nil {
			logits, err = s.read(ctx, len(p.IDs) == len(ids), p)
		}
		if err == nil && logits != nil {
			err = s.finite(logits, s.sequence.Len()+len(p.IDs))
		}
		if err != nil {
			return nil, err
		}
		s.cache.Advance()
		ids = ids[len(p.IDs):]
	}
	return logits, nil
}

// Close gives the memory back and lets the model be patched again. The session has no tokens then and reads none: Feed
// gives an error that wraps ErrClosed.
func (s *Session) Close() {
	s.close()
	s.closed = true
	s.sequence = s.cache.NewSequence()
}
