package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/seed98097648/tune/internal/plainjson"
)

var errNotObject = errors.New(`want a JSON object such as {"text": "..."}`)

// readJSONL reads a record a line. Blank lines are left out.
func readJSONL(f *os.File, path string, yield func(Record, error) bool) error {
	l, err := newLines(f, path)
	if err != nil {
		return err
	}
	return readObjects(l, advised(yield, "want one row a line; a JSON array of rows has a name that ends in .json"))
}

func readObjects(l *lines, yield func(Record, error) bool) error {
	for {
		line, more, err := l.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !more && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		r, bad := Record{Place: l.place()}, (*Error)(nil)
		if more {
			bad = &Error{r.Place, errTooLong}
		} else if bad = CheckUTF8(line, r.Place); bad == nil {
			r.Fields, bad = object(line, r.Place)
		}
		if !send(yield, r, bad) {
			return nil
		}
		if err := l.skip(); err != nil {
			return err
		}
	}
}

// send yields a record or what is wrong with it.
func send(yield func(Record, error) bool, r Record, bad *Error) bool {
	if bad != nil {
		return yield(Record{}, bad)
	}
	return yield(r, nil)
}

// object reads the fields of a JSON object.
func object(text []byte, at Place) (map[string]json.RawMessage, *Error) {
	// A map and not a struct: encoding/json would take a field "Text" as well.
	var fields map[string]json.RawMessage
	if err := plainjson.Unmarshal(text, &fields); err != nil {
		return nil, &Error{at, fmt.Errorf("%w: %w", errNotObject, err)}
	}
	if fields == nil { // the text is null
		return nil, &Error{at, errNotObject}
	}
	if err := plainjson.Surrogates(text); err != nil {
		return nil, &Error{at, err}
	}
	return fields, nil
}
