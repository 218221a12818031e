package serve

import (
	"crypto/rand"
	"errors"
	"net/http"
	"time"
)

// How long a client may take to send the body of a request, and to read what it is sent at a time, which is longer: an
// answer that is known before the body has come waits for that.
const readTime, writeTime = 30 * time.Second, time.Minute

// extendWrite begins the time to read.
func extendWrite(w http.ResponseWriter) {
	// A writer of a test has no deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
}

// statusGone counts clients that have hung up before there was an answer; some proxies have the same number for them.
const statusGone = 499

// errLeft is for a client that has hung up on one side alone, and would take an answer with nothing in it for a good
// one.
var errLeft = &apiError{status: statusGone, Kind: invalidRequest, Message: "the client has closed its side of the " +
	"connection, which ends a request: keep it open until the answer has come"}

// watcher sees what becomes of a request.
type watcher struct {
	http.ResponseWriter
	status int
	err    error
}

// Unwrap is for http.ResponseController.
func (w *watcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *watcher) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *watcher) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// failed keeps an error for the log.
func (w *watcher) failed(err error) { w.err = err }

// watched counts requests and logs what they come to.
func (s *Server) watched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, begun := "req-"+rand.Text(), time.Now()
		w.Header().Set("X-Request-Id", id)
		seen := &watcher{ResponseWriter: w}
		// Also for the body of a request that is refused unread. A writer of a test has no deadlines.
		_ = http.NewResponseController(w).SetReadDeadline(begun.Add(readTime))
		next.ServeHTTP(seen, r)
		took := time.Since(begun)
		if seen.status == 0 {
			writeError(seen, errLeft)
		}
		s.metrics.request(r.Pattern, seen.status, took)
		_, known := errors.AsType[*apiError](seen.err)
		about := []any{"id", id, "method", r.Method, "path", r.URL.Path, "status", seen.status, "seconds", took.Seconds()}
		switch {
		case seen.err == nil:
			s.Logger.Info("request", about...)
		case known:
			s.Logger.Info("request", append(about, "error", seen.err)...)
		default:
			s.Logger.Error("a request has failed", "id", id, "path", r.URL.Path, "error", seen.err)
		}
	})
}
