package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"sync"
	"time"

	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/journal"
)

// Live is the page of a run that goes on. It is a sink of the run and a handler for
// browsers; both may use it at the same time, and browsers do not hold the run up. It
// answers GET and HEAD of two paths: / is the page, which renews itself, and /run.json
// what the journal comes to so far.
type Live struct {
	dir string // of the run, for the title

	mu    sync.Mutex
	run   journal.Run
	ended chan struct{} // closed when the end is known

	pageMu sync.Mutex // one page is made at a time
	made   time.Time
	page   []byte
	tag    string
	asked  time.Time // when somebody looked last
	told   chan struct{}
}

var (
	_ journal.Sink    = (*Live)(nil)
	_ journal.Resumer = (*Live)(nil)
	_ http.Handler    = (*Live)(nil)
)

// NewLive returns the page of a run in dir that has not begun.
func NewLive(dir string) *Live {
	return &Live{dir: dir, ended: make(chan struct{}), told: make(chan struct{})}
}

// Record implements journal.Sink.
func (l *Live) Record(e journal.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.run.Record(e)
	if _, ok := e.(*journal.End); ok && !closed(l.ended) {
		close(l.ended)
	}
	return err
}

// Resume implements journal.Resumer.
func (l *Live) Resume(earlier *journal.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run = *earlier.Snapshot()
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (l *Live) snapshot() *journal.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run.Snapshot()
}

// ServeHTTP implements http.Handler.
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/":
		l.servePage(w, r)
	case "/run.json":
		l.serveJSON(w)
	default:
		http.NotFound(w, r)
	}
}

func (l *Live) servePage(w http.ResponseWriter, r *http.Request) {
	page, tag, err := l.current(time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("ETag", tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(page))
}

// current returns the page and its tag, made again once a second at most.
func (l *Live) current(now time.Time) ([]byte, string, error) {
	l.pageMu.Lock()
	defer l.pageMu.Unlock()
	l.asked = now
	const often = time.Second
	over := closed(l.ended)
	if l.page == nil || now.Sub(l.made) >= often || over && !closed(l.told) {
		page, err := render(l.snapshot(), l.dir, true, now)
		if err != nil {
			return nil, "", err
		}
		sum := sha256.Sum256(page)
		l.page, l.tag, l.made = page, `"`+hex.EncodeToString(sum[:16])+`"`, now
	}
	if over && !closed(l.told) {
		close(l.told)
	}
	return l.page, l.tag, nil
}

func (l *Live) serveJSON(w http.ResponseWriter) {
	text, err := plainjson.Marshal(l.snapshot())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(text, '\n')) // who has gone away need not be told
}

// Linger waits until somebody who looks on has seen the end of the run; no longer than a
// page takes to renew itself, and not at all if nobody does.
func (l *Live) Linger() {
	const renewal = 3 * time.Second
	l.pageMu.Lock()
	watched := time.Since(l.asked) < renewal
	l.pageMu.Unlock()
	if !watched || !closed(l.ended) {
		return
	}
	select {
	case <-l.told:
	case <-time.After(renewal):
	}
}
