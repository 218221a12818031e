package plainjson

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Splice returns a JSON object with the value of one key replaced by what change makes of it, and every other byte as
// it is. found is false of an object that does not have the key, which is returned as it is.
func Splice(object []byte, key string, change func(value []byte) ([]byte, error)) (_ []byte, found bool, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, false, err
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err == nil && name != key {
			continue
		}
		end := int(d.InputOffset())
		start := end - len(value)
		if err == nil {
			value, err = change(value)
		}
		if err != nil {
			return nil, false, err
		}
		return slices.Concat(object[:start], value, object[end:]), true, nil
	}
	return object, false, nil
}
