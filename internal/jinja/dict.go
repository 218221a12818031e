package jinja

import (
	"fmt"
	"iter"
	"math"
)

// Dict is a Python dict: keys keep the order in which they first came. The zero value
// is an empty dict that is ready for use. Keys are strings, numbers, bools, nil or
// tuples of these; 1, 1.0 and True are one key.
type Dict struct {
	entries []entry
	index   map[any]int
}

type entry struct{ key, value any }

// Set gives key the value v, in its old place if the dict has the key already.
func (d *Dict) Set(key string, v any) { d.put(key, key, v) }

// Get returns the value of key and whether there is one.
func (d *Dict) Get(key string) (any, bool) { return d.at(key) }

// Len is the number of keys.
func (d *Dict) Len() int {
	if d == nil {
		return 0
	}
	return len(d.entries)
}

// All yields keys and values in order.
func (d *Dict) All() iter.Seq2[any, any] {
	return func(yield func(any, any) bool) {
		if d == nil {
			return
		}
		for _, e := range d.entries {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

func (d *Dict) at(hash any) (any, bool) {
	if d == nil {
		return nil, false
	}
	i, ok := d.index[hash]
	if !ok {
		return nil, false
	}
	return d.entries[i].value, true
}

func (d *Dict) put(hash, key, v any) {
	if i, ok := d.index[hash]; ok {
		d.entries[i].value = v
		return
	}
	if d.index == nil {
		d.index = make(map[any]int)
	}
	d.index[hash] = len(d.entries)
	d.entries = append(d.entries, entry{key, v})
}

// lookup is d[key], for keys of any type.
func (d *Dict) lookup(key any) (any, bool, error) {
	h, err := hashKey(key)
	if err != nil {
		return nil, false, err
	}
	v, ok := d.at(h)
	return v, ok, nil
}

// insert is d[key] = v, for keys of any type.
func (d *Dict) insert(key, v any) error {
	h, err := hashKey(key)
	if err != nil {
		return err
	}
	d.put(h, key, v)
	return nil
}

// tupleKey stands for a tuple among the keys of a Go map.
type tupleKey string

// hashKey returns a comparable value that is the same for values that Python takes to
// be the same key.
func hashKey(v any) (any, error) {
	switch v := v.(type) {
	case string, nil, jsonInt, *undefined:
		return v, nil
	case markup:
		return string(v), nil
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	case int64:
		return v, nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return int64(v), nil
		}
		return v, nil
	case Tuple:
		text := make([]byte, 0, 64)
		for _, item := range v {
			h, err := hashKey(item)
			if err != nil {
				return nil, err
			}
			text = fmt.Appendf(text, "%T:%q,", h, fmt.Sprint(h))
		}
		return tupleKey(text), nil
	case []any, *Dict:
		return nil, fmt.Errorf("unhashable type: '%s'", TypeName(v))
	}
	return v, nil
}
