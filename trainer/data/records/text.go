package records

import (
	"io"
	"os"
	"strings"
)

// separator stands alone on a line between the documents of a plain text file.
const separator = "<|endoftext|>"

// readText splits plain text at separator lines. A text without any is one document,
// kept as it is; else the line ends around the separators are not part of the text.
// Blank documents are left out. A document longer than MaxBytes is cut at the end of a
// line, or anywhere in a line that long.
func readText(f *os.File, path string, yield func(Record, error) bool) error {
	l, err := newLines(f, path)
	if err != nil {
		return err
	}
	t := &texts{lines: l, startLine: 1, yield: yield}
	for {
		line, more, err := l.next()
		if err == io.EOF {
			t.emit(t.separated)
			return nil
		}
		if err != nil {
			return err
		}
		if bad := CheckUTF8(line, l.place()); bad != nil {
			return final(bad)
		}
		if !t.add(string(line), more) {
			return nil
		}
	}
}

// texts collects the lines of a document.
type texts struct {
	lines     *lines
	text      strings.Builder
	startLine int
	separated bool // a separator was seen
	yield     func(Record, error) bool
}

// add takes a line, or a part of one. It reports whether to go on.
func (t *texts) add(line string, more bool) bool {
	if !more && strings.TrimSpace(line) == separator {
		t.separated = true
		return t.emit(true)
	}
	t.text.WriteString(line)
	if t.text.Len() >= MaxBytes {
		return t.emit(false)
	}
	return true
}

// emit yields the document collected so far, unless it is blank.
func (t *texts) emit(trim bool) bool {
	part, line := t.text.String(), t.startLine
	t.text.Reset()
	if t.startLine = t.lines.line; !t.lines.within {
		t.startLine++
	}
	if strings.TrimSpace(part) == "" {
		return true
	}
	text := part
	if trim {
		text = strings.TrimLeft(part, "\r\n")
		line += strings.Count(part[:len(part)-len(text)], "\n")
		text = strings.TrimRight(text, "\r\n")
	}
	return t.yield(Record{Place: Place{File: t.lines.file, Line: line}, Text: text}, nil)
}
