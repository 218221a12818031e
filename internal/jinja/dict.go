package jinja

import (
	"iter"
	"math"
)

// Dict is a Python dict: keys keep the order in which they first came. The zero value is an
// empty dict that is ready for use. Keys are strings, numbers, bools and nil. As in Python 1,
// 1.0 and True are one key, of which the first stays as it was.
type Dict struct {
	entries []entry
	index   map[any]int
}

type entry struct{ key, value any }

// Set gives key the value v, in its old place if the dict has the key already.
func (d *Dict) Set(key string, v any) { d.insert(key, v) }

// Get returns the value of key and whether there is one.
func (d *Dict) Get(key string) (any, bool) { return d.lookup(key) }

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

// lookup is d[key], for keys of any type.
func (d *Dict) lookup(key any) (any, bool) {
	if d == nil {
		return nil, false
	}
	i, ok := d.index[hashKey(key)]
	if !ok {
		return nil, false
	}
	return d.entries[i].value, true
}

// insert is d[key] = v, for keys of any type.
func (d *Dict) insert(key, v any) {
	hash := hashKey(key)
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

// hashKey returns a comparable value that is the same for values that Python takes to be the
// same key. Python has tuples among them too, which no template is known to use.
func hashKey(v any) any {
	switch v := v.(type) {
	case bool:
		n, _ := integer(v)
		return n
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return int64(v)
		}
	case []any, Tuple, *Dict, markup:
		panic(failed("unhashable type: '%s'", TypeName(v)))
	}
	return v
}
