package generate

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/trainer/nn"
)

// job is a text of an engine.
type job struct {
	*text
	variant  *nn.Variant
	ctx      context.Context
	err      error
	done     chan struct{}
	sequence *nn.Sequence // what is read of it
	unread   []int32      // what is not
	next     int          // how many of these there is room for, to be read in this step
	since    clock.Moment // when it began to be read, or its first token was chosen
}

// loop is the engine's goroutine.
func (e *Engine) loop() {
	for e.receive() {
		e.leave()
		e.admit()
		e.step()
		e.publish()
	}
	for _, j := range slices.Concat(e.running, e.waiting) {
		e.finish(j, errClosed())
	}
}

// publish has Stats say what goes on.
func (e *Engine) publish() {
	e.count(func(s *Stats) {
		s.Running = len(e.running)
		s.BlocksUsed, _ = e.cache.Used()
	})
}

// receive takes the requests that there are, and waits for one if there is nothing to do. It returns false when the
// engine is closed.
func (e *Engine) receive() bool {
	for e.ctx.Err() == nil {
		if len(e.running)+len(e.waiting) == 0 {
			select {
			case j := <-e.requests:
				e.join(j)
			case <-e.ctx.Done():
			}
			continue
		}
		select {
		case j := <-e.requests:
			e.join(j)
		default:
			return true
		}
	}
	return false
}

// join has a text wait for its turn.
func (e *Engine) join(j *job) {
	j.unread = j.Prompt
	e.waiting = append(e.waiting, j)
}

// leave ends the texts that nobody waits for any more.
func (e *Engine) leave() {
	for _, j := range slices.Concat(e.running, e.waiting) {
		if j.ctx.Err() != nil {
			e.finish(j, j.interrupt())
		}
	}
}

// finish ends a text, wherever it is.
func (e *Engine) finish(j *job, err error) {
	is := func(k *job) bool { return k == j }
	if slices.Contains(e.waiting, j) {
		e.count(func(s *Stats) { s.Waiting-- })
	}
	e.running, e.waiting = slices.DeleteFunc(e.running, is), slices.DeleteFunc(e.waiting, is)
	if j.sequence != nil {
		j.sequence.Free()
	}
	if len(j.result.Tokens) > 0 {
		j.result.Decode = clock.Since(j.since)
	}
	j.err = err
	e.publish()
	close(j.done)
}

// admit lets texts go on that wait, as long as there is room for what they have not read yet.
func (e *Engine) admit() {
	for len(e.waiting) > 0 && len(e.running) < e.most {
		j := e.waiting[0]
		if j.sequence == nil {
			j.sequence = e.cache.NewSequenceOf(j.variant)
		}
		hits := j.sequence.Share(j.unread[:len(j.unread)-1])
		if !e.fits(len(j.unread)-hits) && len(e.running) > 0 {
			j.sequence.Free()
			return
		}
		j.unread = j.unread[hits:]
		if len(j.result.Tokens) == 0 {
			j.since, j.result.Reused = clock.Now(), hits
		}
		e.waiting, e.running = e.waiting[1:], append(e.running, j)
		e.count(func(s *Stats) { // before its first token is out: whoever has that counts it among the running
			s.Waiting--
			s.Running = len(e.running)
		})
	}
}

// fits reports whether there are blocks for so many tokens, and for one more of each text that goes on: otherwise
// the youngest would have to wait again before it is read.
func (e *Engine) fits(tokens int) bool {
	used, most := e.cache.Used()
	return (tokens+e.size-1)/e.size+len(e.running) <= most-used
}

// preempt has the youngest text wait until there is room for it again; all of it is unread then.
func (e *Engine) preempt() *job {
	j := e.running[len(e.running)-1]
	e.running = e.running[:len(e.running)-1]
	j.unread = slices.Concat(j.sequence.Tokens(), j.unread)
	j.sequence.Free()
	e.waiting = slices.Insert(e.waiting, 0, j)
	e.count(func(s *Stats) { s.Waiting++ })
	return j
}

// turn returns the text whose prompt is read next, nil if all are: the oldest, and every other time the oldest that
// one piece takes whole, which would else wait for all of a long one.
func (e *Engine) turn() *job {
	var oldest, short *job
	for _, j := range e.running {
		if n := len(j.unread); n > inCompany {
			oldest = cmp.Or(oldest, j)
		} else if n > 1 {
			oldest, short = cmp.Or(oldest, j), cmp.Or(short, j)
		}
	}
	if e.overtaken = !e.overtaken && short != nil && short != oldest; e.overtaken {
		return short
	}
	return oldest
}

// step reads a piece of a prompt that is not read, and one token of every text of which one is left.
func (e *Engine) step() {
	var prompt *job
	var singles []*job
	turn := e.turn()
	if turn != nil && turn.sequence.Len() == 0 { // others may have read what it begins with since it was let on
		hits := turn.sequence.Share(turn.unread[:len(turn.unread)-1])
		if turn.unread = turn.unread[hits:]; len(turn.result.Tokens) == 0 {
			turn.result.Reused = hits
		}
	}
	most := alone
	if slices.ContainsFunc(e.running, func(j *job) bool { return len(j.unread) == 1 }) {
		most = inCompany // or they would wait for long
	}
	for _, j := range slices.Clone(e.running) {
		switch {
		case !slices.Contains(e.running, j): // an older one has its blocks
		case len(j.unread) > 1 && j != turn:
		case !e.reserve(j, pieceOf(len(j.unread), most)):
		case len(j.unread) > 1:
			prompt = j
		default:
			singles = append(singles, j)
		}
	}
	if prompt != nil {
		e.advance([]*job{prompt})
	}
	// Texts of one adapter lie side by side, which is then read once.
	slices.SortStableFunc(singles, func(a, b *job) int { return cmp.Compare(a.Adapter, b.Adapter) })
	for some := range slices.Chunk(singles, batches[len(batches)-1]) {
		e.advance(some)
	}
}

// reserve makes room for the tokens that a text reads next; it takes that of the youngest. It returns false if the
// text itself was the youngest, or has failed.
func (e *Engine) reserve(j *job, tokens int) bool {
	for {
		err := j.sequence.Reserve(tokens)
		if err == nil {
			j.next = tokens
			return true
		}
		if !errors.Is(err, nn.ErrNoBlocks) {
			e.finish(j, err)
			return false
		}
		if e.preempt() == j {
			return false
		}
	}
}

// advance reads the next tokens of some texts, and chooses those that follow.
func (e *Engine) advance(jobs []*job) {
	var p []nn.Piece
	for _, j := range jobs {
		p = append(p, nn.Piece{Sequence: j.sequence, IDs: j.unread[:j.next]})
	}
	logits, err := e.read(e.ctx, jobs[0].next == len(jobs[0].unread), p...)
	if err == nil {
		e.cache.Advance()
	}
	for i, j := range jobs {
		j.unread = j.unread[len(p[i].IDs):]
		failed, row := err, []float32(nil)
		if failed == nil && len(j.unread) == 0 {
			vocab := e.model.Vocab()
			row = logits[i*vocab:][:vocab]
			failed = e.finite(row, j.sequence.Len())
		}
		if failed == nil && row != nil {
			failed = e.choose(j, row)
		}
		if failed != nil && e.ctx.Err() != nil {
			failed = errClosed()
		}
		if failed != nil || j.result.Reason != "" {
			e.finish(j, failed)
		}
	}
}

// choose adds a token to a text.
func (e *Engine) choose(j *job, logits []float32) error {
	if r := j.result; len(r.Tokens) == 0 {
		r.Prefill = clock.Since(j.since)
		j.since = clock.Now()
		e.count(func(s *Stats) { // once, however often the text has to wait and is read again
			s.Prompt += int64(len(j.Prompt))
			s.PrefixHits += int64(r.Reused)
		})
	}
	err := j.text.next(logits, j.sequence.Tokens())
	j.unread = j.result.Tokens[len(j.result.Tokens)-1:]
	e.count(func(s *Stats) { s.Generated++ })
	return err
}
