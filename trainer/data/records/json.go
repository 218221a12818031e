package records

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// readJSON reads the objects of a JSON array, or those of a file that is JSONL by another
// name: it starts with an object.
func readJSON(f *os.File, path string, yield func(Record, error) bool) error {
	l, err := newLines(f, path)
	if err != nil {
		return err
	}
	s := &splitter{lines: l, line: 1}
	first, err := s.space()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	if first != '[' {
		l.line = s.line - 1
		if err := l.r.UnreadByte(); err != nil {
			return err
		}
		return readObjects(l, advised(yield, "want a JSON array of rows, or one row a line"))
	}
	return s.array(yield)
}

// advised adds what to do to the error of a first row that is no object, such as the first line of one that has a line
// for each field.
func advised(yield func(Record, error) bool, advice string) func(Record, error) bool {
	first := true
	return func(r Record, err error) bool {
		if bad, ok := err.(*Error); ok && first && errors.Is(err, errNotObject) {
			err = &Error{bad.Place, fmt.Errorf("%w; %s", bad.Err, advice)}
		}
		first = false
		return yield(r, err)
	}
}

// splitter finds the elements of a JSON array by their brackets and quotes alone. Whether
// they are JSON is for encoding/json to say, one at a time: so no more than one of them is
// in memory, and a broken one does not stop the others.
type splitter struct {
	lines  *lines
	line   int
	row    int
	buffer []byte
}

var errOpen = errors.New("the file ends inside this row: it is cut off, or a bracket or quote is not closed")

// array reads the elements after the opening bracket.
func (s *splitter) array(yield func(Record, error) bool) error {
	c, err := s.space()
	if c == ']' && err == nil {
		return s.end()
	}
	for {
		s.row++
		at := Place{File: s.lines.file, Line: s.line, Row: s.row}
		if err == nil {
			c, err = s.element(c)
		}
		if err == io.EOF {
			return final(&Error{at, errOpen})
		}
		if errors.Is(err, errTooLong) {
			return final(&Error{at, err})
		}
		if err != nil {
			return err
		}
		r := Record{Place: at}
		bad := CheckUTF8(s.buffer, Place{File: at.File, Line: at.Line})
		if bad == nil {
			r.Fields, bad = object(s.buffer, at)
		}
		if !send(yield, r, bad) {
			return nil
		}
		if c == ']' {
			return s.end()
		}
		c, err = s.space()
	}
}

// element reads an element that begins with c into the buffer, and returns the comma or
// bracket after it.
func (s *splitter) element(c byte) (end byte, err error) {
	s.buffer = s.buffer[:0]
	depth, quoted, escaped := 0, false, false
	for ; ; c, err = s.byte() {
		switch {
		case err != nil:
			return 0, err
		case len(s.buffer) >= MaxBytes:
			return 0, errTooLong
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{', c == '[':
			depth++
		case depth == 0 && (c == ',' || c == ']'):
			s.buffer = bytes.TrimRight(s.buffer, " \t\r\n")
			return c, nil
		case c == '}', c == ']':
			depth--
		}
		s.buffer = append(s.buffer, c)
	}
}

// end checks that nothing follows the array.
func (s *splitter) end() error {
	c, err := s.space()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%v: %q after the end of the array; want one JSON array, or one object a line",
		Place{File: s.lines.file, Line: s.line}, c)
}

// space returns the next byte that is not white space.
func (s *splitter) space() (byte, error) {
	for {
		c, err := s.byte()
		if err != nil || c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, err
		}
	}
}

func (s *splitter) byte() (byte, error) {
	c, err := s.lines.r.ReadByte()
	if c == '\n' {
		s.line++
	}
	return c, err
}
