package serve

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/generate"
)

// form is how a kind of request is answered. Objects are written as JSON; those that are nil are left out.
type form interface {
	whole(choices []*choice, u usage) any // the answer at once

	begin(c *choice) any // or in chunks: before the first piece of a choice,
	piece(c *choice, p piece) any
	end(c *choice) any // after its last,
	usage(u usage) any // and after all
}

// job is a request that has been read.
type job struct {
	*common
	model    *Model
	requests []generate.Request
	choices  []*choice
	form     form
}

// answer runs a job and writes what comes of it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, j *job) error {
	out := &events{w: w}
	err := s.run(r, j.model.Engine, j.requests, func(e event) error {
		c := j.choices[e.text]
		if e.result == nil {
			return j.emit(out, c, c.next(e.token))
		}
		s.metrics.text(j.model.Name, e.result)
		if err := j.emit(out, c, c.end(e.result)); err != nil || !j.Stream {
			return err
		}
		return out.send(j.form.end(c))
	})
	switch {
	case errors.Is(err, errGone):
		return err
	case err != nil && out.begun:
		out.fail(err)
		return nil
	case err != nil:
		return err
	case !j.Stream:
		return writeJSON(w, j.form.whole(j.choices, used(j.choices, *j.N)))
	}
	if j.StreamOptions.IncludeUsage {
		err = out.send(j.form.usage(used(j.choices, *j.N)))
	}
	if err == nil {
		err = out.write([]byte("[DONE]\n"))
	}
	return err
}

// emit sends a piece to a client that wants them as they come.
func (j *job) emit(out *events, c *choice, p piece) error {
	if !j.Stream {
		return nil
	}
	if !c.begun {
		c.begun = true
		if err := out.send(j.form.begin(c)); err != nil {
			return err
		}
	}
	if p.empty() {
		return nil
	}
	return out.send(j.form.piece(c, p))
}

// events is a stream of them, as browsers call it.
type events struct {
	w     http.ResponseWriter
	begun bool
}

// send writes an object, unless it is nil.
func (e *events) send(v any) error {
	if v == nil {
		return nil
	}
	var line bytes.Buffer
	if err := plainjson.Encode(&line, v, ""); err != nil {
		return err
	}
	return e.write(line.Bytes())
}

// write writes one event, which is a line.
func (e *events) write(line []byte) error {
	extendWrite(e.w)
	if !e.begun {
		e.begun = true
		h := e.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // some proxies would hand the answer on when it is whole
	}
	_, err := e.w.Write(append(append([]byte("data: "), line...), '\n'))
	if err == nil {
		err = http.NewResponseController(e.w).Flush()
	}
	if err != nil {
		return errGone
	}
	return nil
}

// fail tells of an error in the middle.
func (e *events) fail(err error) {
	if seen, ok := e.w.(*watcher); ok {
		seen.failed(err)
	}
	_ = e.send(errorBody{asAPI(err)}) // who does not read this has gone
}
