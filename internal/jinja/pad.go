package jinja

import (
	"errors"
	"strings"
	"unicode/utf8"
)

func zfill(r *run, a args) (any, error) {
	v, err := a.positional("zfill()", 1, 1)
	if err != nil {
		return nil, err
	}
	width, err := intArg("zfill()", v[1], 0)
	if err != nil {
		return nil, err
	}
	s, _ := text(v[0])
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	s, err = r.pad(s, "0", width-int64(len(sign)), func(gap, _ int) int { return gap })
	return keepMarkup(v[0], sign+s), err
}

// justifying is center and its kind; left says how much of a gap comes before the text.
func justifying(name string, left func(gap, width int) int) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.positional(name, 1, 2)
		if err != nil {
			return nil, err
		}
		width, err := intArg(name, v[1], 0)
		if err != nil {
			return nil, err
		}
		fill, err := textArg(name, or(v[2], " "))
		if err != nil {
			return nil, err
		}
		if utf8.RuneCountInString(fill) != 1 {
			return nil, errors.New("the fill character must be exactly one character long")
		}
		s, _ := text(v[0])
		s, err = r.pad(s, fill, width, left)
		return keepMarkup(v[0], s), err
	}
}

// half is what Python puts to the left of a centred text: of an odd gap the larger part if
// the width is odd.
func half(gap, width int) int { return gap/2 + gap&width&1 }

// pad brings s to width characters; left says how much of the gap comes before s.
func (r *run) pad(s, fill string, width int64, left func(gap, width int) int) (string, error) {
	if width > maxBytes {
		return "", errBytes
	}
	gap := int(width) - utf8.RuneCountInString(s)
	if gap <= 0 {
		return s, nil
	}
	if err := r.charge(len(s) + gap*len(fill)); err != nil {
		return "", err
	}
	before := left(gap, int(width))
	return strings.Repeat(fill, before) + s + strings.Repeat(fill, gap-before), nil
}
