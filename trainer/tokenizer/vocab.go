package tokenizer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A tokenizer.json is some 10 MB, nearly all of it the vocabulary and the merges,
// and encoding/json spends most of a second on those through reflection. The two
// types below read their part with a small scanner instead. It may be simple, for
// encoding/json checks the syntax before it calls UnmarshalJSON.

// vocabulary maps the model's tokens to their ids.
type vocabulary map[string]int32

// UnmarshalJSON reads an object of integers.
func (v *vocabulary) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	s := scanner(data)
	if !s.take('{') {
		return fmt.Errorf("model.vocab is not an object")
	}
	*v = make(vocabulary, len(data)/24) // a guess: real files have 22 to 26 bytes per token
	for !s.take('}') {
		token, err := s.str()
		if err != nil {
			return fmt.Errorf("model.vocab: %w", err)
		}
		s.take(':')
		id, err := s.int32()
		if err != nil {
			return fmt.Errorf("model.vocab: token %q: %w", token, err)
		}
		(*v)[token] = id
		s.take(',')
	}
	return nil
}

// mergeList is the model's merges, the strongest first.
type mergeList [][2]string

// UnmarshalJSON reads a list whose elements are "a b" or ["a", "b"].
func (m *mergeList) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	s := scanner(data)
	if !s.take('[') {
		return fmt.Errorf("model.merges is not a list")
	}
	*m = make(mergeList, 0, len(data)/24)
	for !s.take(']') {
		pair, err := s.merge()
		if err != nil {
			return fmt.Errorf("model.merges[%d]: %w", len(*m), err)
		}
		*m = append(*m, pair)
		s.take(',')
	}
	return nil
}

// scanner is the unread rest of a JSON value whose syntax is known to be right. It
// is a string so that the strings in it need no copies.
type scanner string

// take skips white space, and c if it comes next, which it reports.
func (s *scanner) take(c byte) bool {
	s.skipSpace()
	if len(*s) == 0 || (*s)[0] != c {
		return false
	}
	*s = (*s)[1:]
	return true
}

// skipSpace skips white space.
func (s *scanner) skipSpace() {
	i := 0
	for i < len(*s) && strings.IndexByte(" \t\r\n", (*s)[i]) >= 0 {
		i++
	}
	*s = (*s)[i:]
}

// str reads a string.
func (s *scanner) str() (string, error) {
	if !s.take('"') {
		return "", fmt.Errorf("%s is not a string", s.excerpt())
	}
	end, plain := 0, true
	for (*s)[end] != '"' {
		if (*s)[end] == '\\' {
			plain = false
			end++
		}
		end++
	}
	raw := string((*s)[:end])
	*s = (*s)[end+1:]
	if plain && utf8.ValidString(raw) {
		return raw, nil
	}
	var text string
	err := json.Unmarshal([]byte(`"`+raw+`"`), &text)
	return text, err
}

// int32 reads a number that is an int32.
func (s *scanner) int32() (int32, error) {
	s.skipSpace()
	end := strings.IndexAny(string(*s), ",} \t\r\n")
	if end < 0 {
		end = len(*s)
	}
	n, err := strconv.ParseInt(string((*s)[:end]), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s is not an id", s.excerpt())
	}
	*s = (*s)[end:]
	return int32(n), nil
}

// merge reads one element of the merges.
func (s *scanner) merge() (pair [2]string, err error) {
	if !s.take('[') {
		text, err := s.str()
		if err != nil {
			return pair, err
		}
		a, b, ok := strings.Cut(text, " ")
		if !ok || strings.Contains(b, " ") {
			return pair, fmt.Errorf("%q is not two tokens with one space between", text)
		}
		return [2]string{a, b}, nil
	}
	for i := range pair {
		if pair[i], err = s.str(); err != nil {
			return pair, err
		}
		s.take(',')
	}
	if !s.take(']') {
		return pair, fmt.Errorf("more than two tokens, from %s", s.excerpt())
	}
	return pair, nil
}

// excerpt returns the beginning of what is unread, for an error.
func (s *scanner) excerpt() string {
	return strings.ToValidUTF8(string((*s)[:min(len(*s), 20)]), "")
}
