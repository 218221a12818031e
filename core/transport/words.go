package transport

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed98097648/tune/core/transport/proto"
)

// Limits of what a plugin says about itself, in characters: enough for people, and not
// so much that a listing becomes useless.
const (
	maxName    = 64
	maxSummary = 200
	maxKernels = 64
	maxDTypes  = 16 // of a kernel
)

// maxText bounds what a plugin says about an error, in bytes.
const maxText = offRecord - offText

// printable returns what a plugin wrote as it may be shown on a terminal: in one line,
// without control characters, cut if too long.
func printable(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
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
func checkDescription(d *proto.DescribeReply) error {
	if n := len(d.GetKernels()); n > maxKernels {
		return fmt.Errorf("it offers %d kernels, at most %d are taken", n, maxKernels)
	}
	if err := checkWord("name", d.GetName(), maxName); err != nil {
		return err
	}
	if err := checkWord("version", d.GetVersion(), maxName); err != nil {
		return err
	}
	for _, k := range d.GetKernels() {
		if err := checkWord("op", k.GetOp(), maxName); err != nil {
			return err
		}
		// A second line is a mistake that kerneltest.CheckManifest explains.
		if err := checkWord("summary", strings.ReplaceAll(k.GetSummary(), "\n", " "), maxSummary); err != nil {
			return err
		}
		if n := len(k.GetDtypes()); n > maxDTypes {
			return fmt.Errorf("its kernel for %s names %d dtypes, at most %d are taken", k.GetOp(), n, maxDTypes)
		}
		for _, t := range k.GetDtypes() {
			if err := checkWord("dtype", t, maxName); err != nil {
				return err
			}
		}
	}
	return nil
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
