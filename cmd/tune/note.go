package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// noteHandler writes log records as lines for people: what happens to a plugin in the
// middle of a run. Each warning is a line; what is less than that is said once.
type noteHandler struct {
	w     io.Writer
	attrs []slog.Attr
	said  *sync.Map // lines that are no warnings, shared by all handlers of a program
}

func newNoteHandler(w io.Writer) *noteHandler { return &noteHandler{w: w, said: &sync.Map{}} }

var _ slog.Handler = (*noteHandler)(nil)

// Enabled implements slog.Handler: what is for debugging does not matter to the user of a
// command.
func (h *noteHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements slog.Handler.
func (h *noteHandler) Handle(_ context.Context, r slog.Record) error {
	details := make([]string, 0, len(h.attrs)+r.NumAttrs())
	add := func(a slog.Attr) bool {
		details = append(details, a.Key+": "+a.Value.String())
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	text := r.Message
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	if _, again := h.said.LoadOrStore(text, true); again && r.Level < slog.LevelWarn {
		return nil
	}
	_, err := fmt.Fprintf(h.w, "tune: %s\n", printable(strings.ReplaceAll(flagged(text), "\n", " ")))
	return err
}

// WithAttrs implements slog.Handler.
func (h *noteHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &noteHandler{h.w, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...), h.said}
}

// WithGroup implements slog.Handler. Groups would only lengthen the lines.
func (h *noteHandler) WithGroup(string) slog.Handler { return h }
