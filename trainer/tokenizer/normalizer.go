package tokenizer

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites the text between added tokens. An empty text stays empty.
type normalizer func(string) string

// normalizerSpec is the field "normalizer": the fields of all kinds in one.
type normalizerSpec struct {
	Type        string           `json:"type"`
	Normalizers []normalizerSpec `json:"normalizers"` // Sequence
	Prepend     *string          `json:"prepend"`     // Prepend
	Pattern     *patternSpec     `json:"pattern"`     // Replace
	Content     *string          `json:"content"`     // Replace
	StripLeft   bool             `json:"strip_left"`  // Strip
	StripRight  bool             `json:"strip_right"` // Strip
	Charsmap    *string          `json:"precompiled_charsmap"`
}

// newNormalizer builds the normalizer that the field at path describes.
func newNormalizer(s *normalizerSpec, path string) (normalizer, error) {
	if s == nil {
		return func(text string) string { return text }, nil
	}
	switch s.Type {
	case "NFC":
		return newForm(norm.NFC, norm.NFD), nil
	case "NFD":
		return newForm(norm.NFD, norm.NFD), nil
	case "NFKC":
		return newForm(norm.NFKC, norm.NFKD), nil
	case "NFKD":
		return newForm(norm.NFKD, norm.NFKD), nil
	case "Lowercase":
		return lowercase, nil
	case "Strip":
		return newStrip(s.StripLeft, s.StripRight), nil
	case "Prepend":
		return newPrepend(s.Prepend, path)
	case "Replace":
		return newReplace(s.Pattern, s.Content, path)
	case "Precompiled":
		return newPrecompiled(s.Charsmap, path)
	case "Sequence":
		return chain(s.Normalizers, path, "normalizers", newNormalizer)
	}
	return nil, unsupported(path+".type", s.Type,
		"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "Prepend", "Replace", "Precompiled",
		"Sequence")
}

// newPrecompiled rewrites by the rules of a SentencePiece model.
func newPrecompiled(encoded *string, path string) (normalizer, error) {
	if encoded == nil {
		return nil, fmt.Errorf("%s.precompiled_charsmap is absent", path)
	}
	rules, err := newCharsmap(*encoded)
	if err != nil {
		return nil, fmt.Errorf("%s.precompiled_charsmap: %w", path, err)
	}
	return rules.normalize, nil
}

// newStrip removes white space at the ends.
func newStrip(left, right bool) normalizer {
	return func(text string) string {
		if left {
			text = strings.TrimLeftFunc(text, unicode.IsSpace)
		}
		if right {
			text = strings.TrimRightFunc(text, unicode.IsSpace)
		}
		return text
	}
}

// newPrepend puts prefix before a text.
func newPrepend(prefix *string, path string) (normalizer, error) {
	if prefix == nil {
		return nil, fmt.Errorf("%s.prepend is absent", path)
	}
	return func(text string) string {
		if text == "" {
			return ""
		}
		return *prefix + text
	}, nil
}

// newReplace puts content, taken literally, in place of each match of a pattern.
func newReplace(p *patternSpec, content *string, path string) (normalizer, error) {
	if content == nil {
		return nil, fmt.Errorf("%s.content is absent", path)
	}
	if p != nil && p.String != nil && *p.String != "" { // the common case, done fast
		return strings.NewReplacer(*p.String, *content).Replace, nil
	}
	find, err := newPattern(p, path+".pattern")
	if err != nil {
		return nil, err
	}
	return func(text string) string {
		var out strings.Builder
		for _, s := range find(text) {
			if s.match {
				out.WriteString(*content)
			} else {
				out.WriteString(text[s.start:s.end])
			}
		}
		return out.String()
	}, nil
}
