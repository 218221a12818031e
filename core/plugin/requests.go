package plugin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/wire"
)

// asked answers every request but calls.
func (s *server) asked(kind wire.Kind, text string) wire.Answer {
	var said string
	var err error
	switch kind {
	case wire.Describe:
		said, err = s.describe(text)
	case wire.Supports:
		err = s.supports(text)
	case wire.Bind:
		said, err = s.bind(text)
	case wire.Map:
		err = s.mapFile(text)
	case wire.Unmap:
		var id uint32
		if id, _, err = number(text, "region"); err == nil {
			err = s.dropRegion(id)
		}
	default:
		err = fmt.Errorf("transport: there is no request of kind %d", kind)
	}
	if err != nil {
		return wire.Outcome(err)
	}
	return wire.Answer{Text: said}
}

// describe says who the plugin is, of several the one that the text names.
func (s *server) describe(text string) (string, error) {
	name, _, named := wire.CutLine(text, "plugin")
	i := slices.IndexFunc(s.plugins, func(o Offer) bool { return !named || o.Name == name })
	if i < 0 {
		return "", fmt.Errorf("transport: this process has no plugin %q", name)
	}
	offer := s.plugins[i]
	var b strings.Builder
	fmt.Fprintf(&b, "name=%s\nversion=%s\n", offer.Name, offer.Version)
	for _, k := range offer.Kernels {
		i := k.Info()
		types := make([]string, len(i.DTypes))
		for j, t := range i.DTypes {
			types[j] = t.String()
		}
		// A summary of two lines is a mistake that kerneltest.CheckManifest explains.
		summary := strings.ReplaceAll(i.Summary, "\n", "\nsummary=")
		fmt.Fprintf(&b, "kernel=%s\nsummary=%s\nbackward=%t\n", i.Op, summary, i.Backward)
		if len(types) > 0 {
			fmt.Fprintf(&b, "dtypes=%s\n", strings.Join(types, ","))
		}
		if len(i.Adds) > 0 {
			fmt.Fprintf(&b, "adds=%s\n", strings.Join(i.Adds, ","))
		}
		if i.AddsTokens > 0 {
			fmt.Fprintf(&b, "adds_tokens=%d\n", i.AddsTokens)
		}
		if i.ByThreads { // hosts that do not know the name have nothing to refuse in others
			fmt.Fprintf(&b, "by_threads=true\n")
		}
		if i.Keeps {
			fmt.Fprintf(&b, "keeps=true\n")
		}
	}
	if b.Len() > wire.MaxAnswer {
		return "", fmt.Errorf("the plugin describes itself with %d bytes, at most %d are taken", b.Len(), wire.MaxAnswer)
	}
	return b.String(), nil
}

func (s *server) supports(text string) error {
	k, i, rest, err := s.kernel(text)
	if err != nil {
		return err
	}
	f, err := wire.ReadFacts(rest)
	if err == nil {
		err = guard(func() error { return k.Supports(f) })
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agreed[agreement{i, f}] = true
	return nil
}

// bind prepares a pass and returns its handle.
func (s *server) bind(text string) (string, error) {
	k, i, rest, err := s.kernel(text)
	if err != nil {
		return "", err
	}
	name, rest, _ := wire.CutLine(rest, "pass")
	pass := core.Forward
	if name == core.Backward.String() {
		pass = core.Backward
	}
	f, err := wire.ReadFacts(rest)
	if err != nil {
		return "", err
	}
	c, err := core.NewCall(k.Info().Op, pass, f)
	if err != nil {
		return "", err
	}
	c.Add = make([]bool, len(c.Out))
	n := len(c.In) + len(c.Out)
	s.mu.Lock()
	defer s.mu.Unlock()
	var refused error
	if !s.agreed[agreement{i, f}] {
		refused = guard(func() error { return k.Supports(f) })
	}
	s.bound = append(s.bound, &boundPass{kernel: k, info: k.Info(), call: c, refused: refused,
		shapes: make([]int, 0, n*wire.MaxRank)})
	return fmt.Sprintf("handle=%d\n", len(s.bound)-1), nil
}

// kernel finds the kernel that a text names in its first line, by number.
func (s *server) kernel(text string) (k core.Kernel, i uint32, rest string, err error) {
	i, rest, err = number(text, "kernel")
	if err == nil && int64(i) >= int64(len(s.kernels)) {
		err = fmt.Errorf("%w: there are %d kernels, none has number %d", core.ErrBadCall, len(s.kernels), i)
	}
	if err != nil {
		return nil, 0, "", err
	}
	return s.kernels[i], i, rest, nil
}

// number reads the first line of a text, name=NUMBER.
func number(text, name string) (n uint32, rest string, err error) {
	value, rest, _ := wire.CutLine(text, name)
	v, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return 0, "", fmt.Errorf("transport: %q does not begin with %s=NUMBER: %w", text, name, err)
	}
	return uint32(v), rest, nil
}

// mapFile maps a region that the host made as a file.
func (s *server) mapFile(text string) error {
	id, rest, err := number(text, "region")
	if err != nil {
		return err
	}
	bytes, rest, _ := wire.CutLine(rest, "size")
	size, err := strconv.ParseInt(bytes, 10, 64)
	if err != nil {
		return fmt.Errorf("transport: size of region %d: %w", id, err)
	}
	may, rest, _ := wire.CutLine(rest, "writable")
	path, _, _ := wire.CutLine(rest, "path")
	view, err := shm.MapPath(path, size, may == "true")
	if err != nil {
		return err
	}
	return s.addRegion(id, view, may == "true")
}
