package transport

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// newLogger gives go-plugin a logger. Everything becomes a debug record: go-plugin reports an
// orderly exit as a warning and passes on what plugins print, while what matters to a user is
// logged by this package itself.
func newLogger(log *slog.Logger) hclog.InterceptLogger {
	level := hclog.Trace
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		level = hclog.Off // go-plugin spends no time on what nobody reads
	}
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: level, Output: io.Discard})
	l.RegisterSink(debugSink{log})
	return l
}

type debugSink struct{ log *slog.Logger }

// Accept implements hclog.SinkAdapter.
func (s debugSink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	s.log.Debug(msg, append(args, "plugin_level", level.String())...)
}

// lastWords keeps what a plugin wrote last to its standard error, for the message
// about its death. A crash of a Go program starts with the cause and goes on for
// pages, so from the cause on it keeps the beginning instead of the end.
type lastWords struct {
	mu      sync.Mutex
	text    []byte
	crashed bool
}

const maxLastWords = 600

func (w *lastWords) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range bytes.Lines(b) {
		if !w.crashed && isCrash(line) {
			w.crashed, w.text = true, nil
		}
		if w.crashed && len(w.text) > maxLastWords {
			break
		}
		w.text = append(w.text, line...)
		if over := len(w.text) - maxLastWords; over > 0 && !w.crashed {
			w.text = w.text[over:]
		}
	}
	return len(b), nil
}

// String returns the words in one line.
func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.FieldsFunc(string(w.text), func(r rune) bool { return r == '\n' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	if w.crashed && len(lines) > 3 {
		lines = lines[:3]
	}
	return printable(strings.Join(lines, "; "))
}

// noThread is how Go's runtime begins to say that it got no thread, in a program that was built without a C compiler.
const noThread = "runtime: failed to create new OS thread"

func isCrash(line []byte) bool {
	starts := []string{"panic:", "fatal error:", "runtime/cgo:", noThread, "unexpected fault address", "SIG"}
	return slices.ContainsFunc(starts, func(s string) bool { return bytes.HasPrefix(line, []byte(s)) })
}
