package serve

import (
	"context"
	"net/http"
	"sync"

	"github.com/seed98097648/tune/trainer/generate"
)

// event is what has happened to one of the texts of a request.
type event struct {
	text   int
	token  generate.Token   // unless the text has ended
	result *generate.Result // of a text that has
}

// queue hands events from the engine, which must not wait for a client, to who writes to one. What it holds is bounded
// by what the texts may have.
type queue struct {
	mu     sync.Mutex
	events []event
	wake   chan struct{}
}

func (q *queue) put(e event) {
	q.mu.Lock()
	q.events = append(q.events, e)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default: // it is awake
	}
}

func (q *queue) take() []event {
	<-q.wake
	q.mu.Lock()
	defer q.mu.Unlock()
	events := q.events
	q.events = nil
	return events
}

// run has the engine write texts, and calls got with what becomes of them until all have ended. An error, also of got,
// ends all, and is returned when they have ended: errGone if the client has, errEnding if the server has.
func (s *Server) run(r *http.Request, e Engine, requests []generate.Request, got func(event) error) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errEnding) })()
	q := &queue{wake: make(chan struct{}, 1)}
	var texts sync.WaitGroup
	defer texts.Wait()
	for i, request := range requests {
		request.Token = func(t generate.Token) error {
			q.put(event{text: i, token: t})
			return nil
		}
		texts.Go(func() {
			result, err := e.Generate(ctx, request)
			if err != nil {
				cancel(err)
				result = &generate.Result{Reason: generate.Interrupted}
			}
			q.put(event{text: i, result: result})
		})
	}
	var failed error
	for open := len(requests); open > 0; {
		for _, e := range q.take() {
			if e.result != nil {
				open--
			}
			if failed == nil && e.result != nil && e.result.Reason == generate.Interrupted {
				failed = context.Cause(ctx)
			} else if failed == nil {
				failed = got(e)
			}
			if failed != nil {
				cancel(failed)
			}
		}
	}
	if failed != nil && r.Context().Err() != nil && s.ctx.Err() == nil {
		return errGone
	}
	return failed
}
