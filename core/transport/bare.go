package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport/proto"
)

// bareProtocol is what a plugin without gRPC calls itself in go-plugin's handshake.
// go-plugin starts it, checks it, logs what it says and ends it, and has no idea how to
// connect to it: nobody does. Requests about its kernels go the way of calls, as texts.
const bareProtocol goplugin.Protocol = "bare"

// errNoBare is why a bare plugin cannot be used.
var errNoBare = fmt.Errorf("%w: it speaks the bare protocol, which needs the doorbell: run on Linux without TUNE_TRANSPORT=portable, or use a plugin that speaks gRPC", core.ErrIncompatible)

// asker is what a link needs to carry requests other than calls: the doorbell does.
type asker interface {
	// ask hands a request over.
	ask(kind uint32, text []byte) error
	// wait waits for its answer, as for that of a call.
	wait(d time.Duration) (answer, bool)
	// hangUp tells the process to end, and waits for that, at most as long as grace.
	hangUp(grace time.Duration) error
}

// bareControl is the control of a bare plugin.
type bareControl struct {
	link  asker
	gone  func() bool                      // whether the process has ended
	facts func(core.Facts) ([]byte, error) // how they are written in a request
}

var _ control = bareControl{}

func (c bareControl) describe(ctx context.Context) (*proto.DescribeReply, error) {
	a, err := c.ask(ctx, requestDescribe, nil)
	if err == nil {
		err = statusError(a.status, a.text)
	}
	if err != nil {
		return nil, err
	}
	d, err := parseDescription(a.text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", core.ErrIncompatible, err)
	}
	return d, nil
}

func (c bareControl) supports(ctx context.Context, kernel uint32, f core.Facts) (answer, error) {
	facts, err := c.facts(f)
	if err != nil {
		return answer{}, err
	}
	return c.ask(ctx, requestSupports, append(fmt.Appendf(nil, "kernel=%d\n", kernel), facts...))
}

func (c bareControl) bind(ctx context.Context, b binding) (uint32, error) {
	facts, err := c.facts(b.facts)
	if err != nil {
		return 0, err
	}
	a, err := c.ask(ctx, requestBind, append(fmt.Appendf(nil, "kernel=%d\npass=%s\n", b.kernel, b.pass), facts...))
	if err == nil {
		err = statusError(a.status, a.text)
	}
	if err != nil {
		return 0, err
	}
	number, ok := strings.CutPrefix(strings.TrimSuffix(a.text, "\n"), "handle=")
	h, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return 0, fmt.Errorf("transport: the plugin answers %q to bind, not handle=NUMBER", a.text)
	}
	return uint32(h), nil
}

// ask makes one request and waits for the answer.
func (c bareControl) ask(ctx context.Context, kind uint32, text []byte) (answer, error) {
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

// factsText writes facts as lines of name=value: the members of their JSON form, in its
// order, texts without quotes.
func factsText(f core.Facts) ([]byte, error) {
	object, err := factsJSON(f)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var out []byte
	for name := true; ; {
		t, err := d.Token()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("transport: facts %v: %w", f, err)
		}
		if _, brace := t.(json.Delim); brace {
			continue
		}
		word := fmt.Sprint(t)
		if !plain(word) {
			return nil, fmt.Errorf("%w: the fact %q is no plain line of text", core.ErrNotSupported, word)
		}
		end := "\n"
		if name {
			end = "="
		}
		out, name = append(append(out, word...), end...), !name
	}
}

// parseDescription reads how a bare plugin describes itself: lines of name=value, where
// "kernel" begins the next kernel and is its op. It trusts nothing.
func parseDescription(text string) (*proto.DescribeReply, error) {
	d := &proto.DescribeReply{}
	seen := map[string]bool{} // the names since the last kernel
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		name, value, ok := strings.Cut(line, "=")
		if !ok || !plain(line) {
			return nil, fmt.Errorf("transport: the plugin describes itself with %q, which is no line name=value", line)
		}
		if name == "kernel" {
			clear(seen)
			d.Kernels = append(d.Kernels, &proto.KernelInfo{Op: value})
			continue
		}
		if seen[name] {
			return nil, fmt.Errorf("transport: the plugin describes itself with two lines %q", name)
		}
		seen[name] = true
		if err := describeOne(d, name, value); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// describeOne takes in one line about the plugin or, after its first kernel, about the
// kernel that came last.
func describeOne(d *proto.DescribeReply, name, value string) error {
	if len(d.Kernels) == 0 {
		switch name {
		case "name":
			d.Name = value
			return nil
		case "version":
			d.Version = value
			return nil
		}
		return fmt.Errorf("transport: the plugin describes itself with %s=%s before its first kernel; name and version belong there", name, value)
	}
	k := d.Kernels[len(d.Kernels)-1]
	switch name {
	case "summary":
		k.Summary = value
	case "dtypes":
		k.Dtypes = strings.Split(value, ",")
	case "backward":
		if value != "true" && value != "false" {
			return fmt.Errorf("transport: the plugin's kernel for %s has backward=%s; it must be true or false", k.Op, value)
		}
		k.Backward = value == "true"
	default:
		return fmt.Errorf("transport: the plugin's kernel for %s is described by %s=%s, which this host does not know; update tune or rebuild the plugin", k.Op, name, value)
	}
	return nil
}

// plain reports whether a text fits one line and is safe to show.
func plain(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// byeGrace is what a bare plugin gets to end by itself, as much as go-plugin gives to
// others.
const byeGrace = 2 * time.Second

// connectBare is what connect does for a plugin without gRPC.
func (p *process) connectBare() error {
	link, ok := p.link.(asker)
	if !ok {
		return errNoBare
	}
	p.control = bareControl{link, p.gone, factsText}
	return nil
}

// sayGoodbye lets a bare plugin end by itself, which the end of the lifeline tells it;
// go-plugin has no connection to say so.
func (p *process) sayGoodbye() error {
	if c, bare := p.control.(bareControl); bare {
		return c.link.hangUp(byeGrace)
	}
	return nil
}
