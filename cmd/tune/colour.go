package main

import (
	"io"
	"os"
	"strings"

	"github.com/seed98097648/tune/trainer/progress"
)

// palette colours words on a terminal, and leaves them as they are elsewhere.
type palette bool

// paletteOf returns the palette for what is written to w: colours for a terminal whose user has
// nothing against them.
func paletteOf(w io.Writer) palette {
	return palette(progress.Escapes(w) && os.Getenv("NO_COLOR") == "")
}

func (p palette) paint(code, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p palette) bold(text string) string { return p.paint("1", text) }
func (p palette) soft(text string) string { return p.paint("2", text) }
func (p palette) good(text string) string { return p.paint("32", text) }
func (p palette) bad(text string) string  { return p.paint("31", text) }

// actions colours what core.FormatActions has written: the heading, the kernels that are
// placed, and the figures below.
func (p palette) actions(text string) string {
	if !p {
		return text
	}
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		before, kernel, placed := strings.Cut(line, " -> ")
		switch {
		case i == 0:
			line = p.bold(line)
		case placed:
			line = before + " -> " + p.good(kernel)
		case strings.HasPrefix(line, "    "):
			line = p.soft(line)
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line)
	}
	return b.String()
}
