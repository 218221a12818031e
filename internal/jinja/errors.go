package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is what is wrong at a place of a template.
type Error struct {
	Name         string // the template's, as given to Parse
	Line, Column int    // from 1; columns count characters
	Err          error
}

// Error returns name:line:column and what is wrong there.
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %v", e.Name, e.Line, e.Column, e.Err)
}

// Unwrap returns what is wrong without the place.
func (e *Error) Unwrap() error { return e.Err }

// Raised is the message of a template that called raise_exception: it refuses what it was
// given to render.
type Raised string

// Error returns the message.
func (r Raised) Error() string { return string(r) }

// failure is what the parser and a rendering panic with where they cannot go on. It never
// leaves the package: catch makes an error of it. The standard library's text/template
// does the same, and for the same reason: nearly every step of an interpreter can fail,
// and all failures go to one place.
type failure struct{ err error }

// failed makes the failure to panic with.
func failed(format string, a ...any) failure { return failure{fmt.Errorf(format, a...)} }

// catch, deferred, turns a failure into an error. Any other panic is a mistake of this
// package and goes on.
func catch(err *error) {
	switch e := recover().(type) {
	case nil:
	case failure:
		*err = e.err
	default:
		panic(e)
	}
}

// source is a template's text with what its errors need.
type source struct{ name, text string }

// at says where in the source err happened; the innermost place wins.
func (s *source) at(err error, pos int) error {
	if _, placed := errors.AsType[*Error](err); err == nil || placed {
		return err
	}
	before := s.text[:min(pos, len(s.text))]
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return &Error{s.name, 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(line), err}
}
