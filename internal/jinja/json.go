package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/seed98097648/tune/internal/plainjson"
)

// ParseJSON reads one JSON value as Python's json module does: objects become *Dict with
// the keys in order, and numbers with a fraction or an exponent become floats, all others
// ints.
func ParseJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := parseValue(d, 0)
	if err != nil {
		return nil, plainjson.Explain(data, nil, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("text after the JSON value, at byte %d", d.InputOffset())
	}
	return v, nil
}

// UnmarshalJSON reads a JSON object, keeping the order of its keys.
func (d *Dict) UnmarshalJSON(data []byte) error {
	v, err := ParseJSON(data)
	if err != nil {
		return err
	}
	object, ok := v.(*Dict)
	if !ok {
		return fmt.Errorf("want a JSON object, have %s", TypeName(v))
	}
	*d = *object
	return nil
}

// MarshalJSON writes the dict as a JSON object, keys in order.
func (d *Dict) MarshalJSON() ([]byte, error) {
	v, err := fromGo(d, 0)
	if err != nil {
		return nil, err
	}
	text, err := newRun(nil, Options{}).toJSON(v, jsonStyle{itemSep: ",", keySep: ":"})
	return []byte(text), err
}

func parseValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("JSON nested more than %d deep", maxNesting)
	}
	token, err := d.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, err
	}
	switch token := token.(type) {
	case json.Number:
		return parseNumber(string(token))
	case json.Delim:
		if token == '[' {
			return parseArray(d, depth)
		}
		return parseObject(d, depth)
	}
	return token, nil // nil, bool or string
}

func parseArray(d *json.Decoder, depth int) (any, error) {
	items := []any{}
	for d.More() {
		v, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	_, err := d.Token()
	return items, err
}

func parseObject(d *json.Decoder, depth int) (any, error) {
	object := new(Dict)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		object.Set(key.(string), v)
	}
	_, err := d.Token()
	return object, err
}

// parseNumber reads a number of JSON as Python does.
func parseNumber(s string) (any, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil && !math.IsInf(f, 0) { // 1e999 is inf to Python
			return nil, fmt.Errorf("not a number: %q", s)
		}
		return f, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return jsonInt(s), nil
	}
	if err != nil {
		return nil, fmt.Errorf("not a number: %q", s)
	}
	return n, nil
}

// jsonStyle is how a value is written as JSON.
type jsonStyle struct {
	indent          string
	pretty          bool // one item a line, indented
	itemSep, keySep string
	sortKeys, ascii bool
}

// toJSON writes v as Python's json.dumps does.
func (r *run) toJSON(v any, style jsonStyle) (string, error) {
	var w jsonWriter
	w.run, w.jsonStyle = r, style
	err := w.write(v, 0)
	return w.String(), err
}

type jsonWriter struct {
	strings.Builder
	*run
	jsonStyle
}

func (w *jsonWriter) write(v any, depth int) error {
	if err := w.enter(); err != nil {
		return err
	}
	defer w.leave()
	before := w.Len()
	switch v := v.(type) {
	case nil:
		w.WriteString("null")
	case bool:
		w.WriteString(strconv.FormatBool(v))
	case string:
		w.quote(v)
	case markup:
		w.quote(string(v))
	case int64:
		w.WriteString(strconv.FormatInt(v, 10))
	case jsonInt:
		w.WriteString(string(v))
	case float64:
		w.WriteString(jsonFloat(v))
	case []any:
		return w.list(v, depth)
	case Tuple:
		return w.list(v, depth)
	case *Dict:
		return w.dict(v, depth)
	default:
		return fmt.Errorf("object of type %s is not JSON serializable", TypeName(v))
	}
	return w.charge(w.Len() - before)
}

func (w *jsonWriter) list(items []any, depth int) error {
	if len(items) == 0 {
		w.WriteString("[]")
		return nil
	}
	w.WriteByte('[')
	for i, item := range items {
		w.separate(i, depth+1)
		if err := w.write(item, depth+1); err != nil {
			return err
		}
	}
	return w.close(']', depth)
}

func (w *jsonWriter) dict(d *Dict, depth int) error {
	if d.Len() == 0 {
		w.WriteString("{}")
		return nil
	}
	entries := d.entries
	if w.sortKeys {
		var err error
		if entries, err = w.sortEntries(entries); err != nil {
			return err
		}
	}
	w.WriteByte('{')
	for i, e := range entries {
		key, err := jsonKey(e.key)
		if err != nil {
			return err
		}
		w.separate(i, depth+1)
		w.quote(key)
		w.WriteString(w.keySep)
		if err := w.write(e.value, depth+1); err != nil {
			return err
		}
	}
	return w.close('}', depth)
}

// separate writes what comes before item i.
func (w *jsonWriter) separate(i, depth int) {
	if i > 0 {
		w.WriteString(w.itemSep)
	}
	w.newline(depth)
}

func (w *jsonWriter) close(bracket byte, depth int) error {
	w.newline(depth)
	w.WriteByte(bracket)
	return w.charge(depth * len(w.indent))
}

func (w *jsonWriter) newline(depth int) {
	if w.pretty {
		w.WriteByte('\n')
		for range depth {
			w.WriteString(w.indent)
		}
	}
}

// jsonKey is the string that json.dumps makes of a key.
func jsonKey(key any) (string, error) {
	switch key := key.(type) {
	case string:
		return key, nil
	case markup:
		return string(key), nil
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(key), nil
	case int64, jsonInt:
		return fmt.Sprint(key), nil
	case float64:
		return jsonFloat(key), nil
	}
	return "", fmt.Errorf("keys must be str, int, float, bool or None, not %s", TypeName(key))
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return floatRepr(f)
}

// quote writes s as a JSON string; of what is not ASCII, only what must be escaped is.
func (w *jsonWriter) quote(s string) {
	w.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			w.WriteByte('\\')
			w.WriteRune(c)
		case c == '\n':
			w.WriteString(`\n`)
		case c == '\r':
			w.WriteString(`\r`)
		case c == '\t':
			w.WriteString(`\t`)
		case c == '\b':
			w.WriteString(`\b`)
		case c == '\f':
			w.WriteString(`\f`)
		case c < 0x20 || w.ascii && c > 0x7e && c < 0x10000:
			fmt.Fprintf(w, `\u%04x`, c)
		case w.ascii && c >= 0x10000:
			c -= 0x10000
			fmt.Fprintf(w, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			w.WriteRune(c)
		}
	}
	w.WriteByte('"')
}
