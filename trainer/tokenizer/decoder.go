package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder turns tokens into parts of the text, to be joined without anything
// between them.
type decoder func(tokens []string) []string

// decoderSpec is the field "decoder": the fields of all kinds in one.
type decoderSpec struct {
	Type           string        `json:"type"`
	Decoders       []decoderSpec `json:"decoders"`         // Sequence
	Pattern        *patternSpec  `json:"pattern"`          // Replace
	Content        *string       `json:"content"`          // Replace, Strip
	Start          int           `json:"start"`            // Strip
	Stop           int           `json:"stop"`             // Strip
	AddPrefixSpace *bool         `json:"add_prefix_space"` // old Metaspace
	metaspaceSpec
}

// newDecoder builds the decoder that the field at path describes.
func newDecoder(s *decoderSpec, path string) (decoder, error) {
	if s == nil {
		return func(tokens []string) []string { return []string{strings.Join(tokens, " ")} }, nil
	}
	switch s.Type {
	case "ByteLevel":
		return decodeByteLevel, nil
	case "ByteFallback":
		return decodeByteFallback, nil
	case "Fuse":
		return func(tokens []string) []string { return []string{strings.Join(tokens, "")} }, nil
	case "Replace":
		replace, err := newReplace(s.Pattern, s.Content, path)
		return each(replace), err
	case "Strip":
		return newStripDecoder(s, path)
	case "Metaspace":
		return s.metaspaceSpec.decoder(s.AddPrefixSpace, path)
	case "Sequence":
		return newDecoders(s.Decoders, path)
	}
	return nil, unsupported(path+".type", s.Type, "ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace", "Sequence")
}

// newDecoders applies one decoder after the other.
func newDecoders(specs []decoderSpec, path string) (decoder, error) {
	var steps []decoder
	for i := range specs {
		step, err := newDecoder(&specs[i], at(path, "decoders", i))
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	return func(tokens []string) []string {
		for _, step := range steps {
			tokens = step(tokens)
		}
		return tokens
	}, nil
}

// each applies rewrite to every token by itself.
func each(rewrite func(string) string) decoder {
	return func(tokens []string) []string {
		for i, t := range tokens {
			tokens[i] = rewrite(t)
		}
		return tokens
	}
}

// decodeByteLevel reads characters as the bytes they stand for.
func decodeByteLevel(tokens []string) []string {
	var text []byte
	for _, t := range tokens {
		text = appendCharBytes(text, t)
	}
	return []string{lossyUTF8(string(text))}
}

// decodeByteFallback reads tokens like <0x0A> as bytes. Where a run of them is not
// UTF-8, each byte of the run becomes U+FFFD.
func decodeByteFallback(tokens []string) []string {
	var out []string
	var run []byte
	flush := func() {
		switch {
		case len(run) == 0:
		case utf8.Valid(run):
			out = append(out, string(run))
		default:
			for range run {
				out = append(out, "\uFFFD")
			}
		}
		run = run[:0]
	}
	for _, t := range tokens {
		if b, ok := byteToken(t); ok {
			run = append(run, b)
			continue
		}
		flush()
		out = append(out, t)
	}
	flush()
	return out
}

// byteToken returns the byte that a token like <0x0A> stands for.
func byteToken(t string) (byte, bool) {
	if len(t) != 6 || !strings.HasPrefix(t, "<0x") || t[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(t[3:5], 16, 8)
	return byte(b), err == nil
}

// newStripDecoder removes up to Start and Stop times a character from the ends of
// each token.
func newStripDecoder(s *decoderSpec, path string) (decoder, error) {
	if s.Content == nil || utf8.RuneCountInString(*s.Content) != 1 {
		return nil, fmt.Errorf("%s.content is not a single character", path)
	}
	return each(func(t string) string {
		for i := 0; i < s.Start && strings.HasPrefix(t, *s.Content); i++ {
			t = strings.TrimPrefix(t, *s.Content)
		}
		for i := 0; i < s.Stop && strings.HasSuffix(t, *s.Content); i++ {
			t = strings.TrimSuffix(t, *s.Content)
		}
		return t
	}), nil
}

// decoder reads the replacement as a space. In the first token it is dropped, for
// there it was prepended, unless none ever is.
func (s metaspaceSpec) decoder(prefixSpace *bool, path string) (decoder, error) {
	replacement, scheme, err := s.read(prefixSpace, path)
	if err != nil {
		return nil, err
	}
	return func(tokens []string) []string {
		for i, t := range tokens {
			space := " "
			if i == 0 && scheme != prependNever {
				space = ""
			}
			tokens[i] = strings.ReplaceAll(t, replacement, space)
		}
		return tokens
	}, nil
}
