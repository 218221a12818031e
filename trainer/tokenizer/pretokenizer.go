package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is a part of a text on its way to become words.
type piece struct {
	text  string
	first bool // it stands at the very beginning of the whole text
}

// preTokenizer cuts a piece into smaller ones and gives them to emit in order. It
// is never given an empty piece.
type preTokenizer func(p piece, emit func(piece))

// preTokenizerSpec is the field "pre_tokenizer": the fields of all kinds in one.
type preTokenizerSpec struct {
	Type             string             `json:"type"`
	PreTokenizers    []preTokenizerSpec `json:"pretokenizers"`     // Sequence
	Pattern          *patternSpec       `json:"pattern"`           // Split
	Behavior         string             `json:"behavior"`          // Split
	Invert           bool               `json:"invert"`            // Split
	AddPrefixSpace   *bool              `json:"add_prefix_space"`  // ByteLevel, old Metaspace
	UseRegex         *bool              `json:"use_regex"`         // ByteLevel
	IndividualDigits bool               `json:"individual_digits"` // Digits
	metaspaceSpec
}

// gpt2Words is the expression that ByteLevel cuts by unless told otherwise.
const gpt2Words = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// newPreTokenizer builds the pre-tokenizer that the field at path describes.
func newPreTokenizer(s *preTokenizerSpec, path string) (preTokenizer, error) {
	if s == nil {
		return whole, nil
	}
	switch s.Type {
	case "Sequence":
		return newPreTokenizers(s.PreTokenizers, path)
	case "Split":
		return newSplit(s, path)
	case "ByteLevel":
		return newByteLevel(orTrue(s.AddPrefixSpace), orTrue(s.UseRegex))
	case "Digits":
		how := contiguous
		if s.IndividualDigits {
			how = isolated
		}
		return splitter(runes(unicode.IsNumber), how), nil
	case "Whitespace":
		return splitWords, nil
	case "Metaspace":
		return s.metaspaceSpec.preTokenizer(s.AddPrefixSpace, path)
	}
	return nil, unsupported(path+".type", s.Type, "Split", "ByteLevel", "Digits", "Whitespace", "Metaspace", "Sequence")
}

// whole does not cut.
func whole(p piece, emit func(piece)) { emit(p) }

// newPreTokenizers cuts by one pre-tokenizer after the other.
func newPreTokenizers(specs []preTokenizerSpec, path string) (preTokenizer, error) {
	all := whole
	for i := range specs {
		step, err := newPreTokenizer(&specs[i], at(path, "pretokenizers", i))
		if err != nil {
			return nil, err
		}
		before := all
		all = func(p piece, emit func(piece)) {
			before(p, func(q piece) { step(q, emit) })
		}
	}
	return all, nil
}

// newSplit cuts at the matches of a pattern.
func newSplit(s *preTokenizerSpec, path string) (preTokenizer, error) {
	how, ok := behaviors[s.Behavior]
	if !ok {
		return nil, unsupported(path+".behavior", s.Behavior,
			"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
	}
	find, err := newPattern(s.Pattern, path+".pattern")
	if err != nil {
		return nil, err
	}
	if s.Invert {
		find = invert(find)
	}
	return splitter(find, how), nil
}

// invert swaps matches and what lies between them.
func invert(find pattern) pattern {
	return func(text string) []span {
		spans := find(text)
		for i := range spans {
			spans[i].match = !spans[i].match
		}
		return spans
	}
}

// splitter cuts where find says and treats the matches as how says.
func splitter(find pattern, how behavior) preTokenizer {
	return func(p piece, emit func(piece)) {
		for _, s := range how(find(p.text)) {
			if s.start < s.end {
				emit(piece{p.text[s.start:s.end], p.first && s.start == 0})
			}
		}
	}
}

// splitWords cuts into runs of word characters and runs of other visible ones.
func splitWords(p piece, emit func(piece)) {
	words := splitter(runes(isWord), contiguous)
	splitter(runes(unicode.IsSpace), removed)(p, func(q piece) { words(q, emit) })
}

// newByteLevel writes each byte as one visible character, after cutting like GPT-2
// did if words is set.
func newByteLevel(prefixSpace, words bool) (preTokenizer, error) {
	cut := whole
	if words {
		find, err := newRegex(gpt2Words)
		if err != nil {
			return nil, err
		}
		cut = splitter(find, isolated)
	}
	return func(p piece, emit func(piece)) {
		if prefixSpace && !strings.HasPrefix(p.text, " ") {
			p.text = " " + p.text
		}
		cut(p, func(q piece) { emit(piece{bytesToChars(q.text), q.first}) })
	}, nil
}

// metaspaceSpec is the part that the pre-tokenizer and the decoder Metaspace share.
type metaspaceSpec struct {
	Replacement   *string `json:"replacement"`
	PrependScheme *string `json:"prepend_scheme"`
	Split         *bool   `json:"split"`
}

// The values of prepend_scheme.
const (
	prependAlways = "always"
	prependFirst  = "first"
	prependNever  = "never"
)

// read returns the character that stands for a space, and when one is prepended.
// Old files have add_prefix_space too, which must not say otherwise.
func (s metaspaceSpec) read(prefixSpace *bool, path string) (replacement, scheme string, err error) {
	replacement, scheme = "▁", prependAlways
	if s.Replacement != nil {
		replacement = *s.Replacement
	}
	if utf8.RuneCountInString(replacement) != 1 {
		return "", "", unsupported(path+".replacement", replacement, "a single character")
	}
	if s.PrependScheme != nil {
		scheme = *s.PrependScheme
	}
	if scheme != prependAlways && scheme != prependFirst && scheme != prependNever {
		return "", "", unsupported(path+".prepend_scheme", scheme, prependAlways, prependFirst, prependNever)
	}
	if !orTrue(prefixSpace) && scheme != prependNever {
		return "", "", fmt.Errorf("%s: add_prefix_space is false and prepend_scheme is %q; make it %q", path, scheme,
			prependNever)
	}
	return replacement, scheme, nil
}

// preTokenizer writes spaces as the replacement, puts one before the text, and cuts
// before each.
func (s metaspaceSpec) preTokenizer(prefixSpace *bool, path string) (preTokenizer, error) {
	replacement, scheme, err := s.read(prefixSpace, path)
	if err != nil {
		return nil, err
	}
	cut := whole
	if orTrue(s.Split) {
		cut = splitter(literal(replacement), mergedWithNext)
	}
	return func(p piece, emit func(piece)) {
		p.text = strings.ReplaceAll(p.text, " ", replacement)
		if (scheme == prependAlways || scheme == prependFirst && p.first) && !strings.HasPrefix(p.text, replacement) {
			p.text = replacement + p.text
		}
		cut(p, emit)
	}, nil
}
