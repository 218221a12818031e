package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is one entry of the field "added_tokens": a text that is always one
// token.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only where it is not part of a longer word
	LStrip     bool   `json:"lstrip"`      // takes the white space before it along
	RStrip     bool   `json:"rstrip"`      // takes the white space after it along
	Special    bool   `json:"special"`     // carries no text: left out by Decode on demand
	Normalized *bool  `json:"normalized"`
}

// isNormalized reports whether a token is looked for after normalization, as it is by default
// if it is not special.
func (a *addedToken) isNormalized() bool {
	if a.Normalized == nil {
		return !a.Special
	}
	return *a.Normalized
}

// addedTokens finds added tokens in a text.
type addedTokens struct {
	exact      matcher         // before normalization
	normalized matcher         // after it
	special    map[string]bool // contents of the special tokens
}

// newAddedTokens prepares the search for tokens. Special tokens come first where
// two read the same after normalization.
func newAddedTokens(tokens []addedToken, normalize normalizer) addedTokens {
	a := addedTokens{special: make(map[string]bool)}
	for _, special := range []bool{true, false} {
		for i := range tokens {
			t := &tokens[i]
			switch {
			case t.Special != special:
				continue
			case t.isNormalized():
				a.normalized.add(normalize(t.Content), t)
			default:
				a.exact.add(t.Content, t)
			}
			if special {
				a.special[t.Content] = true
			}
		}
	}
	return a
}

// matcher finds the leftmost token in a text, and the longest of those. It is a
// trie, with an array in place of the root for speed: nearly all bytes of a text
// begin no token.
type matcher struct{ first [256]*trieNode }

// trieNode is reached by the bytes of a prefix of some token.
type trieNode struct {
	next  map[byte]*trieNode
	token *addedToken // the token that ends here
}

// add enters token under the text it is found by; the first one under a text stays.
func (m *matcher) add(text string, token *addedToken) {
	if text == "" { // what normalizes to nothing is never found
		return
	}
	if m.first[text[0]] == nil {
		m.first[text[0]] = new(trieNode)
	}
	n := m.first[text[0]]
	for _, b := range []byte(text[1:]) {
		if n.next == nil {
			n.next = make(map[byte]*trieNode)
		}
		if n.next[b] == nil {
			n.next[b] = new(trieNode)
		}
		n = n.next[b]
	}
	if n.token == nil {
		n.token = token
	}
}

// find returns the first token in s at or after from, nil if there is none, and
// where it begins and ends.
func (m *matcher) find(s string, from int) (token *addedToken, start, end int) {
	for start = from; start < len(s); start++ {
		n := m.first[s[start]]
		for i := start + 1; n != nil; i++ {
			if n.token != nil {
				token, end = n.token, i
			}
			if i == len(s) {
				break
			}
			n = n.next[s[i]]
		}
		if token != nil {
			return token, start, end
		}
	}
	return nil, len(s), len(s)
}

// segment is a part of a text: an added token, or what is between two of them.
type segment struct {
	token *addedToken
	text  string // if token is nil
	start int    // byte offset of text in the whole
}

// split calls emit for the segments of s in order; none is empty.
func (m *matcher) split(s string, emit func(segment)) {
	done := 0 // s[:done] has been emitted
	for from := 0; ; {
		token, start, end := m.find(s, from)
		if token == nil {
			break
		}
		from = end
		if token.SingleWord && (endsInWord(s[:start]) || beginsWithWord(s[end:])) {
			continue
		}
		if token.LStrip {
			start = len(strings.TrimRightFunc(s[:start], unicode.IsSpace))
		}
		if token.RStrip {
			end = len(s) - len(strings.TrimLeftFunc(s[end:], unicode.IsSpace))
		}
		if done < start {
			emit(segment{text: s[done:start], start: done})
		}
		emit(segment{token: token})
		done = end
	}
	if done < len(s) {
		emit(segment{text: s[done:], start: done})
	}
}

// endsInWord reports whether the last character of s is part of a word.
func endsInWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

// beginsWithWord reports whether the first character of s is part of a word.
func beginsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}
