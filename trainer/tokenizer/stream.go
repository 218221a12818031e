package tokenizer

import "strings"

// Stream decodes tokens as they come. What it returns for all of them, put together, is
// what Decode returns for them at once, and each piece consists of whole characters: a
// token that ends in the middle of one is held back until the rest has come.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	decode      stage
}

// Stream begins a text. With skipSpecial, special tokens are left out.
func (t *Tokenizer) Stream(skipSpecial bool) *Stream {
	return &Stream{t, skipSpecial, t.decode()}
}

// Next returns what the next token adds to the text, as far as that is certain whatever
// comes after it.
func (s *Stream) Next(id int32) string {
	token, ok := s.t.text(id, s.skipSpecial)
	if !ok {
		return ""
	}
	return join(s.decode([]part{{text: token}}, false))
}

// End returns what was held back. The stream then begins another text.
func (s *Stream) End() string {
	rest := join(s.decode(nil, true))
	s.decode = s.t.decode()
	return rest
}

func join(parts []part) string {
	if len(parts) == 1 {
		return parts[0].text
	}
	var text strings.Builder
	for _, p := range parts {
		text.WriteString(p.text)
	}
	return text.String()
}
