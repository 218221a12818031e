package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// ErrClosed is wrapped by what an engine or a session that was closed answers.
var ErrClosed = errors.New("closed")

// Request asks an engine for a text.
type Request struct {
	Prompt  []int32 // tokens
	Options Options // Emit is called as Token is
	Adapter string  // the name of an adapter of the model, see models.Model.AddVariant; empty for the model alone
	// LogProbs is how many of the likeliest tokens each Token has, with the probability of its own; a negative
	// number asks for its own alone, 0 for none.
	LogProbs int
	// Token, unless it is nil, gets each new token, from the engine's goroutine: what it waits for, all texts wait
	// for. Its error ends the text, and Generate returns it.
	Token func(Token) error
}

// EngineConfig sizes an engine.
type EngineConfig struct {
	MaxSequences int // texts that go on at the same time; 0 for 16
	// Blocks are the most of the cache, which begins with a few and takes more rather than forget a text that others
	// may share; 0 for as many as MaxSequences texts of Limit tokens take.
	Blocks    int
	BlockSize int // tokens that a block has room for; 0 for 16
	Limit     int // tokens of a text and its prompt; 0, or too many, for as many as the model has positions
}

// Stats is what an engine does, and has done.
type Stats struct {
	Running, Waiting        int   // texts
	BlocksUsed, BlocksTotal int   // of the cache
	PrefixHits              int64 // tokens of prompts that were in the cache already
	Prompt, Generated       int64 // tokens of prompts, and tokens that were chosen
}

// Engine lets a model go on with several texts at the same time: in each step it reads a piece of one prompt, and
// a token of every text whose prompt is read. Prompts are read in the order in which they came, but a short one need
// not wait for all of a long one. A text joins and leaves between any two steps. Texts that begin with the same tokens
// share what the cache has of them. Where the cache has no room for all, the youngest text waits, and is read again
// later.
//
// What a text becomes depends on its request alone, up to rounding: a product of few rows adds up in another order
// than one of many. So logits have the same bits alone and in company as long as no more than 16 texts go on, and
// neither a shared beginning nor a second reading cuts a prompt elsewhere. They are those of a model that was loaded
// with the text's adapter, without kernels; these add up in an order of their own. Texts of different adapters share
// nothing of the cache.
//
// Its methods are safe for concurrent use. Patch the model before the first Generate, and Close the engine before
// patching it again.
type Engine struct {
	tokenizer *tokenizer.Tokenizer
	most      int    // texts that go on at the same time
	size      int    // tokens of a block
	*reader          // of the goroutine of loop
	running   []*job // the oldest first
	waiting   []*job // those of the loop, the first to go on first
	overtaken bool   // whether the last piece of a prompt was of a younger one than the oldest
	requests  chan *job
	ctx       context.Context // ends with the engine
	cancel    context.CancelFunc
	end       sync.Once
	done      sync.WaitGroup
	mu        sync.Mutex
	stats     Stats
}

// NewEngine returns an engine whose memory is taken from mem.
func NewEngine(m *models.Model, tok *tokenizer.Tokenizer, mem core.Memory, c EngineConfig) (*Engine, error) {
	if c.MaxSequences < 0 || c.Blocks < 0 || c.BlockSize < 0 {
		return nil, fmt.Errorf("generate: an engine of %d texts and %d blocks of %d tokens: none may be negative",
			c.MaxSequences, c.Blocks, c.BlockSize)
	}
	most, size, limit := cmp.Or(c.MaxSequences, 16), cmp.Or(c.BlockSize, blockSize), limitOf(m, c.Limit)
	blocks := cmp.Or(c.Blocks, most*((limit+size-1)/size))
	e := &Engine{tokenizer: tok, most: most, size: size, reader: newReader(m, mem, min(limit, blocks*size), size, blocks),
		requests: make(chan *job)}
	e.cache.Keeps, e.stats.BlocksTotal = true, blocks
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.done.Go(e.loop)
	return e, nil
}

// Check compares what the kernels of the report give with the plain forward, as that of a Session does. Call it
// before the first Generate.
func (e *Engine) Check(c *crosscheck.Checker, report *core.Report) { e.check, e.report = c, report }

// Limit returns the most tokens that a text can have with its prompt.
func (e *Engine) Limit() int { return e.limit }

// Generate lets the model go on after a prompt, and returns when the text has ended. When ctx ends, the result has
// the text so far; that is no error.
func (e *Engine) Generate(ctx context.Context, q Request) (*Result, error) {
	variant, err := e.model.Variant(q.Adapter)
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	for i, id := range q.Prompt {
		if id < 0 || int(id) >= e.model.Vocab() {
			return nil, fmt.Errorf("generate: token %d of the prompt is %d, and the model has %d", i, id, e.model.Vocab())
		}
	}
	t, err := newText(e.tokenizer, q, e.limit)
	if err != nil {
		return nil, err
	}
	j := &job{text: t, variant: variant, ctx: ctx, done: make(chan struct{})}
	e.count(func(s *Stats) { s.Waiting++ })
	select {
	case e.requests <- j:
		<-j.done
		return t.result, j.err
	case <-ctx.Done():
		t.result.Reason = Interrupted
	case <-e.ctx.Done():
		err = errClosed()
	}
	e.count(func(s *Stats) { s.Waiting-- })
	return t.result, err
}

func errClosed() error { return fmt.Errorf("generate: the engine is %w", ErrClosed) }

func (e *Engine) count(change func(*Stats)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&e.stats)
}

// Stats returns what the engine does at the moment, and has done so far.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// Close ends all texts, whose Generate returns an error that wraps ErrClosed, and gives the memory back. Request.Token
// must not call it.
func (e *Engine) Close() {
	e.end.Do(func() {
		e.cancel()
		e.done.Wait()
		e.close()
	})
}
