package transport

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/wire"
)

// Limits of what a plugin says about itself, in characters: enough for people, and not
// so much that a listing becomes useless.
const (
	maxName    = 64
	maxSummary = 200
	maxKernels = 64
	maxDTypes  = 16 // of a kernel
)

// printable returns what a plugin wrote as it may be shown on a terminal: in one line,
// without control characters, cut if too long.
func printable(s string) string {
	if len(s) > wire.MaxAnswer {
		s = s[:wire.MaxAnswer]
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?"))
	return strings.TrimSpace(s)
}

// checkDescription refuses a description that would spoil what it is shown in.
func checkDescription(m core.Manifest) error {
	if n := len(m.Kernels); n > maxKernels {
		return fmt.Errorf("it offers %d kernels, at most %d are taken", n, maxKernels)
	}
	err := cmp.Or(checkWord("name", m.Name, maxName), checkWord("version", m.Version, maxName))
	for _, k := range m.Kernels {
		if n := len(k.DTypes); n > maxDTypes {
			err = cmp.Or(err, fmt.Errorf("its kernel for %s names %d dtypes, at most %d are taken", k.Op, n, maxDTypes))
		}
		// A second line is a mistake that kerneltest.CheckManifest explains.
		summary := strings.ReplaceAll(k.Summary, "\n", " ")
		err = cmp.Or(err, checkWord("op", string(k.Op), maxName), checkWord("summary", summary, maxSummary))
	}
	return err
}

func checkWord(what, s string, limit int) error {
	if utf8.RuneCountInString(s) > limit {
		return fmt.Errorf("its %s %.40q... has more than %d characters", what, s, limit)
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("its %s %q has characters that cannot be printed", what, s)
	}
	return nil
}
