package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// patternSpec is a field "pattern": one of its two fields is set.
type patternSpec struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// span is a part of a text, in bytes.
type span struct {
	start, end int
	match      bool // it matches the pattern; else it lies between two matches
}

// pattern cuts a text into its matches and what lies between them. All of the text
// is in some span; a span may be empty only if it is a match.
type pattern func(text string) []span

// newPattern builds the pattern that the field at path describes.
func newPattern(s *patternSpec, path string) (pattern, error) {
	switch {
	case s != nil && s.Regex != nil:
		find, err := newRegex(*s.Regex)
		if err != nil {
			return nil, fmt.Errorf("%s.Regex: %q: %w", path, *s.Regex, err)
		}
		return find, nil
	case s != nil && s.String != nil && *s.String != "":
		return literal(*s.String), nil
	}
	return nil, fmt.Errorf(`%s is absent or empty; supported: {"String": …}, {"Regex": …}`, path)
}

// literal finds a text that is not empty.
func literal(find string) pattern {
	return func(text string) (spans []span) {
		done := 0
		for {
			i := strings.Index(text[done:], find)
			if i < 0 {
				return appendGap(spans, done, len(text))
			}
			spans = appendGap(spans, done, done+i)
			spans = append(spans, span{done + i, done + i + len(find), true})
			done += i + len(find)
		}
	}
}

// runes finds the characters that have a property.
func runes(has func(rune) bool) pattern {
	return func(text string) (spans []span) {
		done := 0
		for i, r := range text {
			if !has(r) {
				continue
			}
			spans = appendGap(spans, done, i)
			done = i + utf8.RuneLen(r)
			spans = append(spans, span{i, done, true})
		}
		return appendGap(spans, done, len(text))
	}
}

// newRegex finds the matches of a regular expression. The files are written for
// Oniguruma, which has lookahead and where ^ and $ always match at lines, so
// package regexp will not do.
func newRegex(expr string) (pattern, error) {
	if err := checkDialect(expr); err != nil {
		return nil, err
	}
	// Without limits the search cannot fail, only take long, as it would there.
	re, err := regexp2.Compile(expr, regexp2.Multiline, regexp2.OptionMaxBacktrackingStackSize(-1))
	if err != nil {
		return nil, err
	}
	return func(text string) []span { return regexSpans(re, text) }, nil
}

// regexSpans turns regexp2's offsets in characters into offsets in bytes.
func regexSpans(re *regexp2.Regexp, text string) []span {
	chars := []rune(text)
	spans := make([]span, 0, len(text)/4+1)
	at, offset := 0, 0 // the same place in chars and in text
	ends := -1         // where the match before does, in chars
	advance := func(to int) int {
		for ; at < to; at++ {
			offset += utf8.RuneLen(chars[at])
		}
		return offset
	}
	done := 0
	// The error is nil: there is no limit, and 0 is inside every text.
	_ = re.FindRunesMatches(chars, 0, func(m regexp2.MatchView) bool {
		i, n, _ := m.GroupRange(0)
		if n == 0 && i == ends { // after a match none of nothing counts, in that library
			return true
		}
		ends = i + n
		start := advance(i)
		end := advance(i + n)
		spans = appendGap(spans, done, start)
		spans = append(spans, span{start, end, true})
		done = end
		return true
	})
	return appendGap(spans, done, len(text))
}

// appendGap adds the span between two matches unless it is empty.
func appendGap(spans []span, start, end int) []span {
	if start == end {
		return spans
	}
	return append(spans, span{start: start, end: end})
}
