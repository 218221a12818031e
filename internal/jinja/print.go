package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str(v): how a value prints. A list prints as Python would write it, with single
// quotes and True for true. Templates that mean JSON write |tojson; some forget to, and their
// models have learned that.
func (r *run) str(v any) string {
	if s, ok := text(v); ok {
		return s
	}
	if _, ok := v.(*undefined); ok {
		return ""
	}
	return r.repr(v)
}

// repr is Python's repr(v): how a value prints inside a list or dict.
func (r *run) repr(v any) string {
	p := printer{run: r, style: style{itemSep: ", ", keySep: ": "}}
	p.value(v, 0)
	return p.String()
}

// style is how a printer writes values: as Python's repr, or as its json.dumps.
type style struct {
	json            bool
	indent          string
	pretty          bool // one item a line, indented
	itemSep, keySep string
	sortKeys, ascii bool
}

// printer writes values with the values in them. Python's repr and JSON differ in brackets,
// keys and scalars only, so that one printer does both.
type printer struct {
	strings.Builder
	*run
	style
}

func (p *printer) value(v any, depth int) {
	p.enter()
	defer p.leave()
	before := p.Len() // what is written from here on is charged, without what values inside charge
	switch v := v.(type) {
	case []any:
		p.items("[", v, "]", depth)
		return
	case Tuple:
		switch {
		case p.json: // which has no tuples: they are lists there
			p.items("[", v, "]", depth)
		case len(v) == 1: // (1) would be the item itself
			p.items("(", v, ",)", depth)
		default:
			p.items("(", v, ")", depth)
		}
		return
	case *Dict:
		p.dict(v, depth)
		return
	}
	if p.json {
		p.jsonScalar(v)
	} else {
		p.reprScalar(v, depth)
	}
	p.charge(p.Len() - before)
}

func (p *printer) items(open string, items []any, closing string, depth int) {
	p.WriteString(open)
	for i, item := range items {
		p.separate(i, depth+1)
		p.value(item, depth+1)
	}
	p.close(len(items), closing, depth)
}

func (p *printer) dict(d *Dict, depth int) {
	entries := d.entries
	if p.sortKeys {
		entries = sorted(p.run, entries, false, func(e entry) any { return e.key })
	}
	p.WriteByte('{')
	for i, e := range entries {
		p.separate(i, depth+1)
		if p.json {
			p.jsonKey(e.key)
		} else {
			p.value(e.key, depth+1)
		}
		p.WriteString(p.keySep)
		p.value(e.value, depth+1)
	}
	p.close(len(entries), "}", depth)
}

// separate writes what comes before item i.
func (p *printer) separate(i, depth int) {
	if i > 0 {
		p.WriteString(p.itemSep)
	}
	p.newline(depth)
}

// close writes what comes after n items.
func (p *printer) close(n int, closing string, depth int) {
	if n > 0 {
		p.newline(depth)
	}
	p.WriteString(closing)
}

// newline begins a line of JSON with indentation, which can be of any length and is charged
// for every item.
func (p *printer) newline(depth int) {
	if p.pretty {
		p.charge(depth * len(p.indent))
		p.WriteByte('\n')
		p.WriteString(strings.Repeat(p.indent, depth))
	}
}

// reprScalar writes the repr of what is neither list nor dict.
func (p *printer) reprScalar(v any, depth int) {
	switch v := v.(type) {
	case nil:
		p.WriteString("None")
	case bool:
		p.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case float64:
		p.WriteString(floatRepr(v))
	case string:
		p.WriteString(quoted(v))
	case int64:
		p.WriteString(strconv.FormatInt(v, 10))
	case jsonInt:
		p.WriteString(string(v))
	case *undefined:
		p.WriteString("Undefined")
	case *view:
		if v.once {
			panic(failed("a generator prints as where it is in memory; write |list or |join before"))
		}
		if v.shown == "" {
			p.items(v.kind+"([", v.items, "])", depth)
		}
		p.WriteString(v.shown)
	default:
		panic(failed("a %s has no text to print", TypeName(v)))
	}
}

// floatRepr writes a float as Python does: the fewest digits that give it back, always with a point
// or an exponent. Python begins with exponents at 1e16, and Go's %v at 1e21.
func floatRepr(f float64) string {
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quoted is the repr of a string: in single quotes, unless it has such and no double ones.
func quoted(s string) string {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	return escaped(s, quote, "\n\r\t", func(b *strings.Builder, c rune) {
		switch {
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			fmt.Fprintf(b, `\U%08x`, c)
		}
	})
}

// escaped puts a string into quotes, with a backslash before these and itself, and a letter
// after one for some of the characters that have such. Write writes all others.
func escaped(s string, quote rune, letters string, write func(*strings.Builder, rune)) string {
	var b strings.Builder
	b.WriteRune(quote)
	for _, c := range s {
		switch {
		case c == quote || c == '\\':
			b.WriteRune('\\')
			b.WriteRune(c)
		case strings.ContainsRune(letters, c):
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		default:
			write(&b, c)
		}
	}
	b.WriteRune(quote)
	return b.String()
}
