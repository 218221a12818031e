package transport

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// logAdapter gives go-plugin an slog.Logger. Everything becomes a debug record:
// go-plugin reports an orderly exit as a warning and passes on what plugins print,
// while what matters to a user is logged by this package itself.
type logAdapter struct {
	log  *slog.Logger
	name string
	args []any
}

var _ hclog.Logger = (*logAdapter)(nil)

func (a *logAdapter) Log(level hclog.Level, msg string, args ...any) {
	a.log.Log(context.Background(), slog.LevelDebug, msg, append(args, "plugin_level", level.String())...)
}

func (a *logAdapter) Trace(msg string, args ...any) { a.Log(hclog.Trace, msg, args...) }
func (a *logAdapter) Debug(msg string, args ...any) { a.Log(hclog.Debug, msg, args...) }
func (a *logAdapter) Info(msg string, args ...any)  { a.Log(hclog.Info, msg, args...) }
func (a *logAdapter) Warn(msg string, args ...any)  { a.Log(hclog.Warn, msg, args...) }
func (a *logAdapter) Error(msg string, args ...any) { a.Log(hclog.Error, msg, args...) }

func (a *logAdapter) IsTrace() bool { return a.IsDebug() }
func (a *logAdapter) IsInfo() bool  { return a.IsDebug() }
func (a *logAdapter) IsWarn() bool  { return a.IsDebug() }
func (a *logAdapter) IsError() bool { return a.IsDebug() }
func (a *logAdapter) IsDebug() bool {
	return a.log.Enabled(context.Background(), slog.LevelDebug)
}

func (a *logAdapter) ImpliedArgs() []any    { return a.args }
func (a *logAdapter) Name() string          { return a.name }
func (a *logAdapter) SetLevel(hclog.Level)  {} // the slog handler decides
func (a *logAdapter) GetLevel() hclog.Level { return hclog.Trace }

func (a *logAdapter) With(args ...any) hclog.Logger {
	return &logAdapter{log: a.log.With(args...), name: a.name, args: append(a.args[:len(a.args):len(a.args)], args...)}
}

func (a *logAdapter) Named(name string) hclog.Logger {
	if a.name != "" {
		name = a.name + "." + name
	}
	return a.ResetNamed(name)
}

func (a *logAdapter) ResetNamed(name string) hclog.Logger {
	return &logAdapter{log: a.log, name: name, args: a.args}
}

func (a *logAdapter) StandardLogger(o *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(a.StandardWriter(o), "", 0)
}

func (a *logAdapter) StandardWriter(*hclog.StandardLoggerOptions) io.Writer {
	return writerFunc(func(b []byte) {
		if a.IsDebug() { // what nobody reads should cost little
			a.Debug(string(bytes.TrimSpace(b)))
		}
	})
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

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

func isCrash(line []byte) bool {
	for _, start := range []string{"panic:", "fatal error:", "runtime/cgo:", "unexpected fault address", "SIG"} {
		if bytes.HasPrefix(line, []byte(start)) {
			return true
		}
	}
	return false
}
