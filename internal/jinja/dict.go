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
func (d *Dict) lookup(key any) (any, bool) { return d.at(hashKey(key)) }

// insert is d[key] = v, for keys of any type.
func (d *Dict) insert(key, v any) { d.put(hashKey(key), key, v) }

// tupleKey stands for a tuple among the keys of a Go map.
type tupleKey string

// hashKey returns a comparable value that is the same for values that Python takes to
// be the same key.
func hashKey(v any) any {
	switch v := v.(type) {
	case markup:
		return string(v)
	case bool:
		n, _ := integer(v)
		return n
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return int64(v)
		}
	case Tuple:
		// Go has no comparable slices: the items' hashes are joined, each with its type,
		// so that (1,) and ('1',) stay two keys.
		joined := make([]byte, 0, 64)
		for _, item := range v {
			h := hashKey(item)
			joined = fmt.Appendf(joined, "%T:%q,", h, fmt.Sprint(h))
		}
		return tupleKey(joined)
	case []any, *Dict:
		panic(failed("unhashable type: '%s'", TypeName(v)))
	}
	return v
}
