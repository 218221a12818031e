package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// The functions here read JSON token by token, because json.Unmarshal takes the last
// of two equal names without a word: two readers of one file could then see
// different weights.

func newDecoder(raw []byte) *json.Decoder {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // offsets above 2^53 do not survive a float64
	return dec
}

// next reads one token, which must be a T: a string, a json.Number or a json.Delim.
func next[T any](dec *json.Decoder) (T, error) {
	tok, err := dec.Token()
	v, ok := tok.(T)
	switch {
	case err == io.EOF: // not the end that a caller could be waiting for
		err = io.ErrUnexpectedEOF
	case err == nil && !ok:
		err = fmt.Errorf("unexpected JSON value %v", tok)
	}
	return v, err
}

// expect reads the delimiter want, which starts or ends an object or an array.
func expect(dec *json.Decoder, want json.Delim) error {
	got, err := next[json.Delim](dec)
	if err == nil && got != want {
		err = fmt.Errorf("unexpected %q, want %q", got.String(), want.String())
	}
	return err
}

// eachField reads an object. For each name it calls value, which must read the value.
func eachField(dec *json.Decoder, value func(name string) error) error {
	if err := expect(dec, '{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for dec.More() {
		name, err := next[string](dec)
		if err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("duplicate name %q", name)
		}
		seen[name] = true
		if err := value(name); err != nil {
			return err
		}
	}
	return expect(dec, '}')
}

// eachString reads an object whose values are all strings.
func eachString(dec *json.Decoder, use func(name, value string) error) error {
	return eachField(dec, func(name string) error {
		v, err := next[string](dec)
		if err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
		return use(name, v)
	})
}

// ints reads an array of whole numbers that fit an int. It never returns nil
// without an error.
func ints(dec *json.Decoder) ([]int, error) {
	if err := expect(dec, '['); err != nil {
		return nil, err
	}
	list := []int{}
	for dec.More() {
		num, err := next[json.Number](dec)
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(num.String())
		if err != nil {
			return nil, fmt.Errorf("%s is not a whole number in range", num)
		}
		list = append(list, n)
	}
	return list, expect(dec, ']')
}
