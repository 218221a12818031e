package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// percent is format % values, with values a tuple, a dict, or a single value.
func (r *run) percent(format string, values any) (string, error) {
	list, isTuple := values.(Tuple)
	if !isTuple {
		list = Tuple{values}
	}
	dict, _ := values.(*Dict)
	var b strings.Builder
	used := 0
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 || r.charge(i) != nil {
			break
		}
		b.WriteString(format[:i])
		f, key, size, err := parsePercent(format[i:])
		if err != nil {
			return "", err
		}
		format = format[i+size:]
		if f.verb == '%' {
			b.WriteByte('%')
			continue
		}
		v, err := pick(list, dict, key, &used)
		if err != nil {
			return "", err
		}
		s, err := r.percentValue(v, f)
		if err != nil {
			return "", err
		}
		b.WriteString(s)
	}
	if dict == nil && used < len(list) {
		return "", errors.New("not all arguments converted during string formatting")
	}
	b.WriteString(format)
	return b.String(), r.charge(len(format))
}

// pick returns the value for one directive: that of its key, or the next of the list.
func pick(list Tuple, dict *Dict, key *string, used *int) (any, error) {
	if key != nil {
		if dict == nil {
			return nil, errors.New("format requires a mapping")
		}
		v, ok := dict.Get(*key)
		if !ok {
			return nil, fmt.Errorf("the format has no value for %q", *key)
		}
		return v, nil
	}
	if *used >= len(list) {
		return nil, errors.New("not enough arguments for format string")
	}
	*used++
	return list[*used-1], nil
}

func (r *run) percentValue(v any, f spec) (string, error) {
	switch f.verb {
	case 'r', 'a':
		s, err := r.repr(v)
		if err != nil {
			return "", err
		}
		f.verb, v = 's', s
	case 'd', 'i', 'u':
		f.verb = 'd'
		if x, ok := v.(float64); ok {
			f.verb, f.precision, v = 'f', 0, float64(int64(x))
		}
	}
	if f.align == 0 {
		f.align = '>'
	}
	return r.formatted(v, f)
}

// parsePercent reads one directive: %(key)flags width .precision verb.
func parsePercent(s string) (f spec, key *string, size int, err error) {
	f = spec{fill: " ", precision: -1}
	i := 1
	if strings.HasPrefix(s[i:], "(") {
		end := strings.IndexByte(s, ')')
		if end < 0 {
			return f, nil, 0, errors.New("incomplete format key")
		}
		word := s[i+1 : end]
		key, i = &word, end+1
	}
	for ; i < len(s) && strings.IndexByte("-+ #0", s[i]) >= 0; i++ {
		switch s[i] {
		case '-':
			f.align = '<'
		case '+', ' ':
			f.sign = s[i]
		case '#':
			f.alternate = true
		case '0':
			if f.align == 0 {
				f.align, f.fill = '=', "0"
			}
		}
	}
	f.width, i = digits(s, i, 0)
	if i < len(s) && s[i] == '.' {
		var p int64
		p, i = digits(s, i+1, 0)
		f.precision = int(p)
	}
	if i >= len(s) {
		return f, nil, 0, errors.New("incomplete format")
	}
	f.verb = s[i]
	if strings.IndexByte("sradiufFeEgGxXoc%", f.verb) < 0 {
		return f, nil, 0, fmt.Errorf("unsupported format character '%c'", f.verb)
	}
	if f.align == '=' && strings.IndexByte("sra", f.verb) >= 0 {
		f.align, f.fill = '>', " "
	}
	return f, key, i + 1, nil
}
