package records

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

var errTooLong = fmt.Errorf("it is longer than %d MiB; split it", MaxBytes>>20)

// lines reads a text file line by line, and knows where it is.
type lines struct {
	r      *bufio.Reader
	file   string
	line   int // the line last read, from 1
	within bool
	buffer []byte
	rest   []byte // the beginning of a character, of a line that goes on
}

// newLines starts at the first line, after a byte order mark. It refuses what is not text.
func newLines(r io.Reader, file string) (*lines, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	const near = 8000 // as far as git looks
	start, err := b.Peek(near)
	if err != nil && err != io.EOF {
		return nil, err // which names the file
	}
	if unpack := unpacker(start); unpack != "" {
		return nil, fmt.Errorf("%s is compressed; unpack it first, with %s", file, unpack)
	}
	if isBinary(start) {
		return nil, fmt.Errorf("%s is binary; want text (.txt), or JSONL, JSON, CSV or Parquet by their own extensions",
			file)
	}
	if bytes.HasPrefix(start, []byte("\ufeff")) {
		_, _ = b.Discard(len("\ufeff")) // they have been peeked at
	}
	return &lines{r: b, file: file}, nil
}

// unpacker returns the program for a compressed file, by its first bytes; nothing for any other.
func unpacker(start []byte) string {
	for magic, program := range map[string]string{"\x1f\x8b\x08": "gunzip", "\xfd7zXZ\x00": "unxz",
		"\x28\xb5\x2f\xfd": "unzstd", "PK\x03\x04": "unzip, or save a spreadsheet as CSV"} {
		if bytes.HasPrefix(start, []byte(magic)) {
			return program
		}
	}
	return ""
}

// isBinary recognizes Parquet, and whatever else has a zero byte near its start.
// Text in UTF-16 is full of those as well: its byte order mark leaves it to CheckUTF8,
// which knows what to do about it.
func isBinary(start []byte) bool {
	starts := func(magic string) bool { return bytes.HasPrefix(start, []byte(magic)) }
	if starts("\xff\xfe") || starts("\xfe\xff") {
		return false
	}
	return starts("PAR1") || bytes.IndexByte(start, 0) >= 0
}

// next returns the next line with its line end, or the next MaxBytes of a line that is
// longer; more says that the line goes on. The bytes are valid until the next call. At the
// end of the file the error is io.EOF.
func (l *lines) next() (line []byte, more bool, err error) {
	if !l.within {
		l.line++
	}
	l.buffer = append(l.buffer[:0], l.rest...)
	l.rest = l.rest[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		l.buffer = append(l.buffer, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(l.buffer) < MaxBytes:
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			l.within = true
			whole := wholeRunes(l.buffer)
			l.rest = append(l.rest, l.buffer[whole:]...)
			return l.buffer[:whole], true, nil
		case err == io.EOF && len(l.buffer) > 0:
			err = nil
		}
		l.within = false
		return l.buffer, false, err
	}
}

// wholeRunes returns how much of text is left without a character cut off at its end.
func wholeRunes(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if start := text[len(text)-n:]; utf8.RuneStart(start[0]) {
			if !utf8.FullRune(start) {
				return len(text) - n
			}
			break
		}
	}
	return len(text)
}

// skip reads to the end of a line that next has returned in part.
func (l *lines) skip() error {
	for l.within {
		if _, _, err := l.next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// place is the line last read.
func (l *lines) place() Place { return Place{File: l.file, Line: l.line} }

// CheckUTF8 reports the first byte that is not UTF-8, of text that starts at a line's
// start; nil if there is none.
func CheckUTF8(text []byte, at Place) *Error {
	if utf8.Valid(text) {
		return nil
	}
	i := 0
	for {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		i += size
	}
	at.Line += bytes.Count(text[:i], []byte("\n"))
	at.Column = i - bytes.LastIndexByte(text[:i], '\n')
	return &Error{at, fmt.Errorf("invalid UTF-8 (byte %#02x); convert the file to UTF-8", text[i])}
}

// final makes an error of one that says where it is, after which nothing can be read: not
// an *Error, which stands for one row.
func final(e *Error) error { return fmt.Errorf("%v: %w", e.Place, e.Err) }
