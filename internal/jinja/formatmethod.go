package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// formatMethod is "...{}...".format(...).
func formatMethod(r *run, a args) (any, error) {
	format, _ := text(a.values[0])
	f := formatter{run: r, values: a.values[1:], named: new(Dict)}
	for _, n := range a.named {
		f.named.Set(n.name, n.value)
	}
	s, err := f.expand(format, 2)
	return keepMarkup(a.values[0], s), err
}

type formatter struct {
	*run
	values []any
	named  *Dict
	auto   int64
}

// expand replaces the fields of a format; a field's own format may have fields again, once.
func (f *formatter) expand(format string, levels int) (string, error) {
	if levels == 0 {
		return "", errors.New("max string recursion exceeded")
	}
	var b strings.Builder
	for format != "" {
		i := strings.IndexAny(format, "{}")
		if i < 0 {
			i = len(format)
		}
		b.WriteString(format[:i])
		if err := f.charge(i); err != nil {
			return "", err
		}
		if format = format[i:]; format == "" {
			break
		}
		if len(format) > 1 && format[1] == format[0] {
			b.WriteByte(format[0])
			format = format[2:]
			continue
		}
		size := fieldSize(format)
		if format[0] == '}' || size == 0 {
			return "", errors.New("single '{' or '}' in a format string")
		}
		s, err := f.field(format[1:size-1], levels)
		if err != nil {
			return "", err
		}
		b.WriteString(s)
		format = format[size:]
	}
	return b.String(), nil
}

// fieldSize is the length of the field that s begins with, or 0 if it does not end.
func fieldSize(s string) int {
	open := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// field formats name!conversion:spec.
func (f *formatter) field(field string, levels int) (string, error) {
	name, format, _ := strings.Cut(field, ":")
	name, conversion, _ := strings.Cut(name, "!")
	v, err := f.lookup(name)
	if err != nil {
		return "", err
	}
	switch conversion {
	case "r", "a":
		v, err = f.repr(v)
	case "s":
		v, err = f.str(v)
	}
	if err != nil {
		return "", err
	}
	if strings.Contains(format, "{") {
		if format, err = f.expand(format, levels-1); err != nil {
			return "", err
		}
	}
	parsed, err := parseSpec(format)
	if err != nil {
		return "", err
	}
	return f.formatted(v, parsed)
}

// lookup finds the value of a field: a number or a name, then .attributes and [items].
func (f *formatter) lookup(name string) (any, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	v, err := f.argument(name[:end])
	rest := name[end:]
	for err == nil && rest != "" {
		if rest[0] == '.' {
			end := strings.IndexAny(rest[1:], ".[") + 1
			if end == 0 {
				end = len(rest)
			}
			v, err = f.attribute(v, rest[1:end])
			rest = rest[end:]
			continue
		}
		key, after, ok := strings.Cut(rest[1:], "]")
		if !ok {
			return nil, errors.New("missing ']' in a format string")
		}
		v, err = f.item(v, fieldKey(key))
		rest = after
	}
	return v, err
}

func fieldKey(s string) any {
	if n, i := digits(s, 0, 0); s != "" && i == len(s) {
		return n
	}
	return s
}

func (f *formatter) argument(name string) (any, error) {
	key := fieldKey(name)
	if name == "" {
		key = f.auto
		f.auto++
	}
	if i, ok := key.(int64); ok {
		if i >= int64(len(f.values)) {
			return nil, fmt.Errorf("replacement index %d out of range for positional args", i)
		}
		return f.values[i], nil
	}
	v, ok := f.named.Get(name)
	if !ok {
		return nil, fmt.Errorf("the format has no value for %q", name)
	}
	return v, nil
}

// parseSpec reads [[fill]align][sign][#][0][width][,][.precision][verb].
func parseSpec(s string) (spec, error) {
	f := spec{fill: " ", precision: -1}
	whole := s
	if _, size := utf8.DecodeRuneInString(s); size > 0 && len(s) > size && strings.IndexByte("<>^=", s[size]) >= 0 {
		f.fill, f.align, s = s[:size], s[size], s[size+1:]
	} else if s != "" && strings.IndexByte("<>^=", s[0]) >= 0 {
		f.align, s = s[0], s[1:]
	}
	if s != "" && strings.IndexByte("+- ", s[0]) >= 0 {
		if s[0] != '-' {
			f.sign = s[0]
		}
		s = s[1:]
	}
	if strings.HasPrefix(s, "#") {
		f.alternate, s = true, s[1:]
	}
	if strings.HasPrefix(s, "0") && f.align == 0 {
		f.fill, f.align = "0", '='
	}
	i := 0
	f.width, i = digits(s, 0, 0)
	if s = s[i:]; s != "" && (s[0] == ',' || s[0] == '_') {
		f.comma, s = s[0], s[1:]
	}
	if strings.HasPrefix(s, ".") {
		p, i := digits(s, 1, -1)
		f.precision, s = int(p), s[i:]
	}
	if len(s) == 1 {
		f.verb, s = s[0], ""
	}
	if s != "" || f.verb != 0 && strings.IndexByte("sdfFeEgGxXobc%n", f.verb) < 0 {
		return f, fmt.Errorf("invalid format specifier '%s'", whole)
	}
	return f, nil
}
