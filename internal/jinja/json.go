package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	v, err := readJSON(d)
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
	v, err := fromGo(d)
	if err != nil {
		return nil, err
	}
	return compactJSON(v)
}

func readJSON(d *json.Decoder) (v any, err error) {
	defer catch(&err)
	return parseValue(d, 0), nil
}

// parseValue reads from a stream of tokens, as decoding into a Go map would lose the order
// of the keys.
func parseValue(d *json.Decoder, depth int) any {
	if depth > maxNesting {
		panic(failed("JSON nested more than %d deep", maxNesting))
	}
	token := jsonToken(d)
	switch token {
	case json.Delim('['):
		items := []any{}
		for d.More() {
			items = append(items, parseValue(d, depth+1))
		}
		jsonToken(d)
		return items
	case json.Delim('{'):
		object := new(Dict)
		for d.More() {
			key := jsonToken(d).(string)
			object.Set(key, parseValue(d, depth+1))
		}
		jsonToken(d)
		return object
	}
	return converted(token, 0) // nil, a bool, a string or a json.Number
}

func jsonToken(d *json.Decoder) json.Token {
	token, err := d.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		panic(failure{err})
	}
	return token
}

// parseNumber reads a number of JSON as Python does, which keeps 1 and 1.0 apart: they print
// differently, and many schemas of tools have both.
func parseNumber(s string) (any, error) {
	if strings.ContainsAny(s, ".eE") && !strings.ContainsAny(s, "xX") { // 0x1.8p1 is a number to Go
		f, err := strconv.ParseFloat(s, 64)
		if err != nil { // 1e999 is an infinity to Python, and of no use in a template
			return nil, fmt.Errorf("not a number, or too large for one: %q", s)
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

// compactJSON writes a value as JSON without any blanks.
func compactJSON(v any) (out []byte, err error) {
	defer catch(&err)
	return []byte(newRun(Options{}).toJSON(v, style{itemSep: ",", keySep: ":"})), nil
}

// toJSON writes v as Python's json.dumps does.
func (r *run) toJSON(v any, s style) string {
	s.json = true
	p := printer{run: r, style: s}
	p.value(v, 0)
	return p.String()
}

// tojson is the filter of transformers, which replaces Jinja's: json.dumps without escaping what is
// not ASCII, and without Jinja's \u003c for < and its like. Keys stay in their order. After a comma
// and a colon there is a blank, which models have been trained on; with an indent there is a line
// end after the comma instead.
func tojson(r *run, a args) any {
	s := style{itemSep: ", ", keySep: ": ", ascii: a.flag(1), sortKeys: a.flag(4)}
	indent := a.or(2, nil)
	if blanks, ok := indent.(string); ok {
		s.pretty, s.indent, s.itemSep = true, blanks, ","
	} else if indent != nil {
		s.pretty, s.itemSep = true, ","
		s.indent = strings.Repeat(" ", int(max(0, min(a.int(2, 0), 1000))))
	}
	if separators, ok := indexable(a.or(3, nil)); ok {
		if len(separators) != 2 {
			panic(failed("tojson: separators must be two strings, between items and after keys"))
		}
		s.itemSep, _ = separators[0].(string)
		s.keySep, _ = separators[1].(string)
	}
	return r.toJSON(a.values[0], s)
}

// jsonScalar writes what is neither list nor dict, or fails as json.dumps does.
func (p *printer) jsonScalar(v any) {
	switch v := v.(type) {
	case nil:
		p.WriteString("null")
	case bool:
		p.WriteString(strconv.FormatBool(v))
	case string:
		p.quote(v)
	case int64, jsonInt:
		fmt.Fprint(p, v)
	case float64:
		p.WriteString(floatRepr(v))
	default:
		panic(failed("object of type %s is not JSON serializable", TypeName(v)))
	}
}

// jsonKey writes a key, which JSON wants to be a string, as json.dumps does: the keys 1, True and
// None become "1", "true" and "null".
func (p *printer) jsonKey(key any) {
	switch key := key.(type) {
	case string:
		p.quote(key)
	case nil, bool, int64, jsonInt, float64:
		p.WriteByte('"')
		p.jsonScalar(key)
		p.WriteByte('"')
	default:
		panic(failed("keys must be str, int, float, bool or None, not %s", TypeName(key)))
	}
}

// quote writes s as a JSON string; of what is not ASCII, only what must be escaped is.
func (p *printer) quote(s string) {
	p.WriteString(escaped(s, '"', "\n\r\t\b\f", func(b *strings.Builder, c rune) {
		switch {
		case c < 0x20 || p.ascii && c > 0x7e && c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		case p.ascii && c >= 0x10000: // two surrogates
			c -= 0x10000
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			b.WriteRune(c)
		}
	}))
}
