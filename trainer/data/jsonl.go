package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// textField is the field of a JSONL line that holds the document.
const textField = "text"

var errNotObject = errors.New(`want a JSON object such as {"text": "..."}`)

// parseJSONL reads one document a line. Its errors start with the line's number.
func parseJSONL(all string) ([]Document, error) {
	var docs []Document
	line := 0
	for s := range strings.Lines(all) {
		line++
		if strings.TrimSpace(s) == "" {
			continue
		}
		text, err := parseLine(s)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", line, err)
		}
		if strings.TrimSpace(text) != "" {
			docs = append(docs, Document{Text: text, Line: line})
		}
	}
	return docs, nil
}

func parseLine(s string) (string, error) {
	// A map and not a struct: encoding/json would take a field "Text" as well.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s), &fields); err != nil {
		return "", fmt.Errorf("%w: %w", errNotObject, err)
	}
	if fields == nil { // the line is null
		return "", errNotObject
	}
	value, ok := fields[textField]
	if !ok {
		return "", fmt.Errorf("no field %q; it has %q", textField, slices.Sorted(maps.Keys(fields)))
	}
	if value[0] != '"' { // Unmarshal would take null for an empty string
		return "", fmt.Errorf("field %q is not a string but %.20s", textField, value)
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return "", fmt.Errorf("field %q: %w", textField, err)
	}
	return text, nil
}
