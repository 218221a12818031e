package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// textFilter makes another text of the value's.
func textFilter(f func(string) string) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.bind("the filter", 1, "s")
		if err != nil {
			return nil, err
		}
		s, err := r.str(v[0])
		if err != nil {
			return nil, err
		}
		return r.changed(v[0], f(s))
	}
}

// titleFilter differs from the method title: a word begins after a blank, a hyphen or an
// opening bracket only.
func titleFilter(s string) string {
	begins := true
	return strings.Map(func(c rune) rune {
		atStart := begins
		begins = isSpace(c) || strings.ContainsRune("-({[<", c)
		if atStart {
			return unicode.ToUpper(c)
		}
		return unicode.ToLower(c)
	}, s)
}

func trim(r *run, a args) (any, error) {
	v, err := a.bind("trim", 1, "value", "chars")
	if err != nil {
		return nil, err
	}
	s, err := r.str(v[0])
	if err != nil {
		return nil, err
	}
	if or(v[1], nil) == nil {
		return r.changed(v[0], strings.TrimFunc(s, isSpace))
	}
	chars, err := textArg("trim", v[1])
	if err != nil {
		return nil, err
	}
	return r.changed(v[0], strings.Trim(s, chars))
}

func replaceFilter(r *run, a args) (any, error) {
	v, err := a.bind("replace", 3, "s", "old", "new", "count")
	if err != nil {
		return nil, err
	}
	n := int64(-1)
	if limit := or(v[3], nil); limit != nil {
		if n, err = intArg("replace", limit, -1); err != nil {
			return nil, err
		}
	}
	var s [3]string
	for i := range s {
		if s[i], err = r.str(v[i]); err != nil {
			return nil, err
		}
	}
	out, err := r.replace(s[0], s[1], s[2], n)
	return out, err
}

// indent puts blanks before every line but the first, and not before empty ones.
func indent(r *run, a args) (any, error) {
	v, err := a.bind("indent", 1, "s", "width", "first", "blank")
	if err != nil {
		return nil, err
	}
	s, err := textArg("indent", v[0])
	if err != nil {
		return nil, err
	}
	by, isText := text(or(v[1], nil))
	if !isText {
		n, err := intArg("indent", v[1], 4)
		if err != nil {
			return nil, err
		}
		if by, err = r.pad("", " ", n, func(int, int) int { return 0 }); err != nil {
			return nil, err
		}
	}
	lines := strings.Split(s, "\n")
	blank := truth(or(v[3], false))
	for i, line := range lines {
		if i > 0 && (blank || line != "") || i == 0 && truth(or(v[2], false)) {
			if err := r.charge(len(by)); err != nil {
				return nil, err
			}
			lines[i] = by + line
		}
	}
	out, err := r.join(lines, "\n")
	return keepMarkup(v[0], out), err
}

func center(r *run, a args) (any, error) {
	v, err := a.bind("center", 1, "value", "width")
	if err != nil {
		return nil, err
	}
	s, err := r.str(v[0])
	if err != nil {
		return nil, err
	}
	width, err := intArg("center", v[1], 80)
	if err != nil {
		return nil, err
	}
	s, err = r.pad(s, " ", width, half)
	return keepMarkup(v[0], s), err
}

func formatFilter(r *run, a args) (any, error) {
	format, err := r.str(a.values[0])
	if err != nil {
		return nil, err
	}
	if len(a.named) > 0 && len(a.values) > 1 {
		return nil, errors.New("format takes values or names, not both")
	}
	var values any = Tuple(a.values[1:])
	if len(a.named) > 0 {
		d := new(Dict)
		for _, n := range a.named {
			d.Set(n.name, n.value)
		}
		values = d
	}
	s, err := r.percent(format, values)
	return keepMarkup(a.values[0], s), err
}

// truncate shortens a text to length characters, at the end of a word.
func truncate(r *run, a args) (any, error) {
	v, err := a.bind("truncate", 1, "s", "length", "killwords", "end", "leeway")
	if err != nil {
		return nil, err
	}
	s, err := textArg("truncate", v[0])
	if err != nil {
		return nil, err
	}
	n, err := intArg("truncate", v[1], 255)
	if err != nil {
		return nil, err
	}
	leeway, err := intArg("truncate", or(v[4], int64(5)), 5)
	if err != nil {
		return nil, err
	}
	end, err := textArg("truncate", or(v[3], "..."))
	if err != nil {
		return nil, err
	}
	chars := []rune(s)
	size := int64(len(chars))
	if size <= n+leeway {
		return v[0], nil
	}
	room := n - int64(len([]rune(end)))
	if room < 0 {
		return nil, fmt.Errorf("truncate: expected length >= %d, got %d", len([]rune(end)), n)
	}
	s = string(chars[:room])
	if i := strings.LastIndex(s, " "); i >= 0 && !truth(or(v[2], false)) {
		s = s[:i]
	}
	return r.changed(v[0], s+end)
}

func wordcount(r *run, a args) (any, error) {
	v, err := a.bind("wordcount", 1, "s")
	if err != nil {
		return nil, err
	}
	s, err := r.str(v[0])
	if err != nil {
		return nil, err
	}
	words := strings.FieldsFunc(s, func(c rune) bool {
		return c != '_' && !unicode.IsLetter(c) && !unicode.IsNumber(c)
	})
	return int64(len(words)), r.step(len(s) / 16)
}

const upperHex = "0123456789ABCDEF"

// urlencode quotes a text for a URL; slashes stay.
func urlencode(r *run, a args) (any, error) {
	v, err := a.bind("urlencode", 1, "value")
	if err != nil {
		return nil, err
	}
	s, err := r.str(v[0])
	if err != nil {
		return nil, err
	}
	if err := r.charge(3 * len(s)); err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, c := range []byte(s) {
		if c < 0x80 && (unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)) || strings.IndexByte("_.-~/", c) >= 0) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(upperHex[c>>4])
		b.WriteByte(upperHex[c&15])
	}
	return b.String(), nil
}

// escapeHTML replaces the five characters that mean something in HTML.
func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;").Replace(s)
}

func safe(r *run, a args) (any, error) {
	s, err := asString(r, a)
	if err != nil {
		return nil, err
	}
	t, _ := text(s)
	return markup(t), nil
}

func escapeFilter(r *run, a args) (any, error) {
	if len(a.values) == 1 {
		if m, ok := a.values[0].(markup); ok {
			return m, nil
		}
	}
	return forceEscape(r, a)
}

func forceEscape(r *run, a args) (any, error) {
	s, err := asString(r, a)
	if err != nil {
		return nil, err
	}
	t, _ := text(s)
	if err := r.charge(5 * len(t)); err != nil {
		return nil, err
	}
	return markup(escapeHTML(t)), nil
}
