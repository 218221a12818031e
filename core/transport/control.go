package transport

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/wire"
)

// control is how a host learns of a process's kernels: by texts that go the way of calls.
// Errors are those of the way there, which process.explain understands, or what the plugin
// said.
type control struct {
	link link
	gone func() bool // whether the process has ended
}

// request makes one request to the process. It may take as long as starting may. A caller
// that gives up would leave it unclear what the plugin knows, so it cannot.
func (p *process) request(about string, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.opts.StartTimeout)
	defer cancel()
	defer p.sayIfSlow("an answer about "+about, p.doing)()
	if err := f(ctx); err != nil {
		return p.explain(ctx, err)
	}
	return nil
}

// describe asks who the plugin is and which kernels it offers, or about the one of that name of several that are
// built in.
func (c control) describe(ctx context.Context, name string) (core.Manifest, error) {
	var text []byte
	if name != "" {
		text = fmt.Appendf(nil, "plugin=%s\n", name)
	}
	a, err := c.ask(ctx, wire.Describe, text)
	if err == nil {
		err = statusError(a)
	}
	if err != nil {
		return core.Manifest{}, err
	}
	m, err := parseDescription(a.Text)
	if err != nil {
		return core.Manifest{}, fmt.Errorf("%w: %w", core.ErrIncompatible, err)
	}
	return m, nil
}

// supports asks a kernel, by number, whether it takes the facts. The status of the answer
// says so, its text why not.
func (c control) supports(ctx context.Context, kernel uint32, f core.Facts) (answer, error) {
	facts, err := wire.FactsText(f)
	if err != nil {
		return answer{}, err
	}
	return c.ask(ctx, wire.Supports, append(fmt.Appendf(nil, "kernel=%d\n", kernel), facts...))
}

// bind prepares a pass and returns the handle that call records name.
func (c control) bind(ctx context.Context, b binding) (uint32, error) {
	facts, err := wire.FactsText(b.facts)
	if err != nil {
		return 0, err
	}
	a, err := c.ask(ctx, wire.Bind, append(fmt.Appendf(nil, "kernel=%d\npass=%s\n", b.kernel, b.pass), facts...))
	if err == nil {
		err = statusError(a)
	}
	if err != nil {
		return 0, err
	}
	number, _, ok := wire.CutLine(a.Text, "handle")
	h, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return 0, fmt.Errorf("transport: the plugin answers %q to bind, not handle=NUMBER", a.Text)
	}
	return uint32(h), nil
}

// ask makes one request and waits for the answer.
func (c control) ask(ctx context.Context, kind wire.Kind, text []byte) (answer, error) {
	if err := c.link.ask(kind, text); err != nil {
		return answer{}, err
	}
	for {
		gone := c.gone() // asked before the wait: an answer given before death counts
		a, ok := c.link.wait(waitSlice)
		switch {
		case ok:
			return a, a.broken
		case gone:
			return answer{}, net.ErrClosed
		case ctx.Err() != nil:
			return answer{}, ctx.Err()
		}
	}
}

// parseDescription reads how a plugin describes itself: lines of name=value, where
// "kernel" begins the next kernel and is its op. It trusts nothing.
func parseDescription(text string) (core.Manifest, error) {
	var m core.Manifest
	seen := map[string]bool{} // the names since the last kernel
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		name, value, ok := strings.Cut(line, "=")
		if !ok || !wire.Plain(line) {
			return m, fmt.Errorf("transport: the plugin describes itself with %q, which is no line name=value", line)
		}
		if name == "kernel" {
			clear(seen)
			m.Kernels = append(m.Kernels, core.Info{Name: m.Name, Version: m.Version, Op: core.Op(value)})
			continue
		}
		if seen[name] && name != "summary" {
			return m, fmt.Errorf("transport: the plugin describes itself with two lines %q", name)
		}
		seen[name] = true
		if err := describeOne(&m, name, value); err != nil {
			return m, err
		}
	}
	return m, nil
}

// describeOne takes in one line about the plugin or, after its first kernel, about the
// kernel that came last.
func describeOne(m *core.Manifest, name, value string) error {
	if len(m.Kernels) == 0 {
		to := map[string]*string{"name": &m.Name, "version": &m.Version}[name]
		if to == nil {
			return fmt.Errorf("transport: the plugin describes itself with %s=%s before its first kernel; "+
				"name and version belong there", name, value)
		}
		*to = value
		return nil
	}
	k := &m.Kernels[len(m.Kernels)-1]
	switch name {
	case "summary":
		k.Summary = strings.TrimPrefix(k.Summary+"\n"+value, "\n")
	case "dtypes":
		for word := range strings.SplitSeq(value, ",") {
			t, err := core.ParseDType(word)
			if err = cmp.Or(checkWord("dtype", word, maxName), err); err != nil {
				return fmt.Errorf("its kernel for %s: %w", k.Op, err)
			}
			k.DTypes = append(k.DTypes, t)
		}
	case "adds":
		for word := range strings.SplitSeq(value, ",") {
			if err := checkWord("adds", word, maxName); err != nil {
				return fmt.Errorf("its kernel for %s: %w", k.Op, err)
			}
			k.Adds = append(k.Adds, word)
		}
	case "adds_tokens":
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 1 {
			return fmt.Errorf("transport: the plugin's kernel for %s has adds_tokens=%s; it must be a number of at least 1",
				k.Op, value)
		}
		k.AddsTokens = int(n)
	case "backward", "by_threads", "keeps":
		if value != "true" && value != "false" {
			return fmt.Errorf("transport: the plugin's kernel for %s has %s=%s; it must be true or false", k.Op, name, value)
		}
		*map[string]*bool{"backward": &k.Backward, "by_threads": &k.ByThreads, "keeps": &k.Keeps}[name] = value == "true"
	default:
		return fmt.Errorf("transport: the plugin's kernel for %s is described by %s=%s, which this host does not know; "+
			"update tune or rebuild the plugin", k.Op, name, value)
	}
	return nil
}

// remoteError is an error that a plugin's process reported.
type remoteError struct {
	text string
	is   error // the sentinel that the status stands for, or nil
}

// Error implements error. The text already names the sentinel if the plugin wrapped it.
func (e *remoteError) Error() string { return e.text }

// Unwrap returns the sentinel.
func (e *remoteError) Unwrap() error { return e.is }

// statusError is the inverse of wire.Outcome. It trusts neither the status nor the text.
func statusError(a answer) error {
	text := printable(a.Text)
	switch a.Status {
	case wire.OK:
		return nil
	case wire.NotSupported:
		return &remoteError{text, core.ErrNotSupported}
	case wire.BadCall:
		return &remoteError{text, core.ErrBadCall}
	}
	if text == "" {
		text = fmt.Sprintf("it failed with status %d and no reason", a.Status)
	}
	return &remoteError{text, nil}
}

// Why a plugin cannot be asked the way that it speaks.
var (
	errNoDoorbellHere = fmt.Errorf("%w: it speaks the bare protocol, which needs the doorbell: "+
		"run on Linux without TUNE_TRANSPORT=portable, or use a plugin that speaks gRPC", core.ErrIncompatible)
	errNoRPCHere = fmt.Errorf("%w: it speaks gRPC, though TUNE_LINK told it that requests come through the doorbell; "+
		"rebuild it with this version of tune, or set TUNE_TRANSPORT=portable", core.ErrIncompatible)
)
