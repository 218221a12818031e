package records

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// readCSV reads CSV with a header, the names of the columns. A carriage return before a line feed is left out, of
// quoted cells, too. A row with another number of cells is broken; a quote in the wrong place ends the file, since
// nobody knows how far it reaches.
func readCSV(f *os.File, path string, yield func(Record, error) bool) error {
	l, err := newLines(f, path)
	if err != nil {
		return err
	}
	in := &meter{r: l.r}
	c := csv.NewReader(in)
	header, err := c.Read()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return csvError(err, path, 1)
	}
	if err := checkHeader(header, path); err != nil {
		return err
	}
	line := 1
	for row := 1; ; row++ {
		in.n = 0
		cells, err := c.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil && !errors.Is(err, csv.ErrFieldCount) {
			return csvError(err, path, line+1)
		}
		line, _ = c.FieldPos(0)
		r := Record{Place: Place{File: path, Line: line}}
		var bad *Error
		if err != nil {
			bad = &Error{r.Place, fmt.Errorf("%d cells, but the header has %d", len(cells), len(header))}
		} else {
			r.Fields, bad = fields(header, cells, r.Place)
		}
		if !send(yield, r, bad) {
			return nil
		}
	}
}

func checkHeader(header []string, path string) error {
	for i, name := range header {
		if !utf8.ValidString(name) {
			return fmt.Errorf("%s:1: the name of column %d is not UTF-8; convert the file to UTF-8", path, i+1)
		}
		if strings.Contains(name, "\r") {
			return fmt.Errorf("%s:1: lines end with a carriage return alone; convert them to line feeds", path)
		}
		if name == "" {
			return fmt.Errorf("%s:1: column %d has no name; the first line of CSV must name the columns", path, i+1)
		}
		if slices.Contains(header[:i], name) {
			return fmt.Errorf("%s:1: two columns are called %q", path, name)
		}
	}
	return nil
}

func fields(header, cells []string, at Place) (map[string]json.RawMessage, *Error) {
	fields := make(map[string]json.RawMessage, len(header))
	for i, cell := range cells {
		if bad := CheckUTF8([]byte(cell), Place{File: at.File, Line: at.Line}); bad != nil {
			bad.Place.Column = 0 // counted from the start of the cell
			return nil, &Error{bad.Place, fmt.Errorf("column %q: %w", header[i], bad.Err)}
		}
		value, err := json.Marshal(cell)
		if err != nil {
			return nil, &Error{at, err}
		}
		fields[header[i]] = value
	}
	return fields, nil
}

// csvError says where the file went wrong: in the row that starts at line, or where the
// parser knows better.
func csvError(err error, path string, line int) error {
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("%s:%d: CSV row: line %d, column %d: %w; a quote inside a quoted cell is written twice", path,
			parse.StartLine, parse.Line, parse.Column, parse.Err)
	}
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("%s:%d: CSV row: %w; or is a quote not closed?", path, line, err)
	}
	return err
}

// meter stops a reader after MaxBytes, counted from when n was last set to 0.
type meter struct {
	r io.Reader
	n int
}

// Read implements io.Reader.
func (m *meter) Read(b []byte) (int, error) {
	if m.n > MaxBytes {
		return 0, errTooLong
	}
	n, err := m.r.Read(b)
	m.n += n
	return n, err
}
