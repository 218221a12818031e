package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str(v): how a value prints.
func (r *run) str(v any) (string, error) {
	if s, ok := text(v); ok {
		return s, nil
	}
	if _, ok := v.(*undefined); ok {
		return "", nil
	}
	return r.repr(v)
}

// repr is Python's repr(v): how a value prints inside a list or dict.
func (r *run) repr(v any) (string, error) {
	w := reprWriter{run: r}
	err := w.write(v)
	return w.String(), err
}

type reprWriter struct {
	strings.Builder
	*run
}

func (w *reprWriter) write(v any) error {
	if err := w.enter(); err != nil {
		return err
	}
	defer w.leave()
	before := w.Len()
	switch v := v.(type) {
	case []any:
		return w.items("[", v, "]")
	case Tuple:
		if len(v) == 1 {
			return w.items("(", v, ",)")
		}
		return w.items("(", v, ")")
	case *Dict:
		return w.dict(v)
	case *dictView:
		return w.items(v.name+"([", v.items, "])")
	case *namespace:
		w.WriteString("<Namespace ")
		if err := w.dict(v.values); err != nil {
			return err
		}
		w.WriteString(">")
	default:
		w.WriteString(scalarRepr(v))
	}
	return w.charge(w.Len() - before)
}

func (w *reprWriter) items(open string, items []any, closing string) error {
	w.WriteString(open)
	for i, item := range items {
		if i > 0 {
			w.WriteString(", ")
		}
		if err := w.write(item); err != nil {
			return err
		}
	}
	w.WriteString(closing)
	return nil
}

func (w *reprWriter) dict(d *Dict) error {
	w.WriteString("{")
	for i, e := range d.entries {
		if i > 0 {
			w.WriteString(", ")
		}
		if err := w.write(e.key); err != nil {
			return err
		}
		w.WriteString(": ")
		if err := w.write(e.value); err != nil {
			return err
		}
	}
	w.WriteString("}")
	return nil
}

// scalarRepr is the repr of a value that holds no others.
func scalarRepr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case float64:
		return floatRepr(v)
	case string:
		return quoted(v)
	case markup:
		return "Markup(" + quoted(string(v)) + ")"
	case int64:
		return strconv.FormatInt(v, 10)
	case jsonInt:
		return string(v)
	case *undefined:
		return "Undefined"
	case rangeValue:
		if v.step == 1 {
			return fmt.Sprintf("range(%d, %d)", v.start, v.stop)
		}
		return fmt.Sprintf("range(%d, %d, %d)", v.start, v.stop, v.step)
	case *generator:
		return "<generator object " + v.name + ">"
	case *macro:
		return "<Macro " + quoted(v.name) + ">"
	case *function:
		return "<function " + v.name + ">"
	}
	return "<" + TypeName(v) + " object>"
}

// floatRepr writes a float as Python does: the fewest digits that give it back, always
// with a point or an exponent.
func floatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
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
	var b strings.Builder
	b.WriteRune(quote)
	for _, c := range s {
		switch {
		case c == quote || c == '\\':
			b.WriteRune('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\U%08x`, c)
		}
	}
	b.WriteRune(quote)
	return b.String()
}
