package generate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// ErrClosed is wrapped by what an engine that was closed answers.
var ErrClosed = errors.New("the engine is closed")

// Request asks an engine for a text.
type Request struct {
	Prompt  []int32 // tokens
	Options Options // Emit is called as Token is
	Adapter string  // the name of an adapter of the engine; empty for the model alone
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
	Blocks       int // of the cache; 0 for as many as MaxSequences texts of Limit tokens take
	BlockSize    int // tokens that a block has room for; 0 for 16
	Limit        int // tokens that a text may have with its prompt; 0, or too many, for as many as the model has positions
}

// Stats is what an engine does, and has done.
type Stats struct {
	Running, Waiting        int   // texts
	BlocksUsed, BlocksTotal int   // of the cache
	PrefixHits              int64 // tokens of prompts that were in the cache already
	Prompt, Generated       int64 // tokens of prompts, and tokens that were chosen
}

// Engine lets a model go on with several texts at the same time. Its methods are safe for concurrent use. Patch
// the model before the first Generate, and Close the engine before patching it again.
type Engine struct {
	tokenizer *tokenizer.Tokenizer
	session   *Session
	requests  chan *job
	closing   chan struct{}
	end       sync.Once
	done      sync.WaitGroup
	mu        sync.Mutex
	stats     Stats
}

// job is a request and its answer.
type job struct {
	Request
	ctx    context.Context
	result *Result
	err    error
	done   chan struct{}
}

// NewEngine returns an engine whose memory is taken from mem.
func NewEngine(m *models.Model, tok *tokenizer.Tokenizer, mem core.Memory, c EngineConfig) (*Engine, error) {
	if c.MaxSequences < 0 || c.Blocks < 0 || c.BlockSize < 0 {
		return nil, fmt.Errorf("generate: an engine of %d texts and %d blocks of %d tokens: none may be negative",
			c.MaxSequences, c.Blocks, c.BlockSize)
	}
	e := &Engine{tokenizer: tok, session: NewSession(m, mem, c.Limit), requests: make(chan *job),
		closing: make(chan struct{})}
	e.done.Go(e.loop)
	return e, nil
}

// Check compares what the kernels of the report give with the plain forward, as that of a Session does. Call it
// before the first Generate.
func (e *Engine) Check(c *crosscheck.Checker, report *core.Report) { e.session.Check(c, report) }

// Limit returns the most tokens that a text can have with its prompt.
func (e *Engine) Limit() int { return e.session.Limit() }

// Generate lets the model go on after a prompt, and returns when the text has ended. When ctx ends, the result has
// the text so far; that is no error.
func (e *Engine) Generate(ctx context.Context, q Request) (*Result, error) {
	if q.Adapter != "" {
		return nil, fmt.Errorf("generate: there is no adapter %q", q.Adapter)
	}
	j := &job{Request: q, ctx: ctx, done: make(chan struct{})}
	e.count(func(s *Stats) { s.Waiting++ })
	select {
	case e.requests <- j:
		<-j.done
		return j.result, j.err
	case <-ctx.Done():
		j.result = &Result{PromptTokens: len(q.Prompt), Reason: Interrupted}
	case <-e.closing:
		j.err = fmt.Errorf("generate: %w", ErrClosed)
	}
	e.count(func(s *Stats) { s.Waiting-- })
	return j.result, j.err
}

// loop runs one request after another.
func (e *Engine) loop() {
	for {
		select {
		case <-e.closing:
			return
		case j := <-e.requests:
			e.run(j)
		}
	}
}

func (e *Engine) run(j *job) {
	defer close(j.done)
	e.count(func(s *Stats) { s.Waiting, s.Running = s.Waiting-1, 1 })
	token := j.Token
	j.Token = func(t Token) error {
		e.count(func(s *Stats) { s.Generated++ })
		select {
		case <-e.closing:
			return fmt.Errorf("generate: %w", ErrClosed)
		default:
		}
		if token == nil {
			return nil
		}
		return token(t)
	}
	j.result, j.err = e.session.run(j.ctx, e.tokenizer, j.Request)
	e.count(func(s *Stats) {
		s.Running = 0
		if j.result != nil {
			s.PrefixHits += int64(j.result.Reused)
			s.Prompt += int64(j.result.PromptTokens)
		}
	})
}

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

// Close ends all texts, whose Generate returns an error that wraps ErrClosed, and gives the memory back.
func (e *Engine) Close() {
	e.end.Do(func() {
		close(e.closing)
		e.done.Wait()
		e.session.Close()
	})
}
