package progress

import (
	"io"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// Columns is the width that lines for people are wrapped at where nothing else is known.
const Columns = 80

// IsTerminal reports whether somebody sees what is written.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(descriptor)
	return ok && term.IsTerminal(int(f.Fd()))
}

// descriptor is a file, or what writes to one.
type descriptor interface{ Fd() uintptr }

// Wrapped breaks a line at spaces so that it fits a terminal where that is possible. What
// follows the first line is indented.
func Wrapped(line, indent string) string { return wrapped(line, indent, Columns) }

func wrapped(line, indent string, columns int) string {
	var b strings.Builder
	for end := fitsInto(line, columns); end < len(line); end = fitsInto(line, columns) {
		start := len(line) - len(strings.TrimLeft(line, " "))
		at := strings.LastIndex(line[:end+1], " ")
		if at < start { // a word that is too long
			if at = start + strings.Index(line[start:], " "); at < start {
				break
			}
		}
		b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
		line = indent + strings.TrimLeft(line[at:], " ")
	}
	return b.String() + line
}

// fitsInto returns how many bytes of a line have room in so many columns.
func fitsInto(line string, columns int) int {
	for i, r := range line {
		if columns -= columnsFor(r); columns < 0 {
			return i
		}
	}
	return len(line)
}

// Wide returns how many columns of a terminal a text takes.
func Wide(text string) (columns int) {
	for _, r := range text {
		columns += columnsFor(r)
	}
	return columns
}

func columnsFor(r rune) int {
	switch kind := width.LookupRune(r).Kind(); {
	case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
		return 2
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	return 1
}

// fitting wraps the lines of a text for a terminal, which would break them within words.
// Elsewhere they are for programs too, and stay whole.
func fitting(w io.Writer, text, indent string) string {
	if !IsTerminal(w) {
		return text
	}
	var b strings.Builder
	columns := columnsOf(w)
	for line := range strings.Lines(text) {
		whole := strings.TrimSuffix(line, "\n")
		b.WriteString(wrapped(whole, indent, columns) + line[len(whole):])
	}
	return b.String()
}

// columnsOf returns the width of a terminal, or Columns where that is not known or senseless.
func columnsOf(w io.Writer) int {
	const fewest = 20
	if f, ok := w.(descriptor); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n >= fewest {
			return n
		}
	}
	return Columns
}
