package progress

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Columns is the width that lines for people are wrapped at.
const Columns = 80

// IsTerminal reports whether somebody sees what is written.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Wrapped breaks a line at spaces so that it fits a terminal where that is possible. What
// follows the first line is indented.
func Wrapped(line, indent string) string {
	var b strings.Builder
	for len(line) > Columns {
		start := len(line) - len(strings.TrimLeft(line, " "))
		at := strings.LastIndex(line[:Columns+1], " ")
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

// fitting wraps the lines of a text for a terminal, which would break them within words.
// Elsewhere they are for programs too, and stay whole.
func fitting(w io.Writer, text, indent string) string {
	if !IsTerminal(w) {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		whole := strings.TrimSuffix(line, "\n")
		b.WriteString(Wrapped(whole, indent) + line[len(whole):])
	}
	return b.String()
}
