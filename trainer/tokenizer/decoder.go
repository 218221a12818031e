package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder begins a text.
type decoder func() stage

// stage turns the tokens of one text into parts of the text, to be joined without
// anything between them. It gets them in order, any number at a time, and returns what is
// certain of its result whatever comes next; with end set, nothing does, and it returns
// the rest. How the tokens are cut into calls makes no difference to the whole.
type stage func(in []part, end bool) []part

// part is a token on its way to text, or a piece of one.
type part struct {
	text string
	more bool // it continues the token before
}

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
	d, _, err := newStage(s, path, false)
	return d, err
}

// newStage builds a decoder for tokens that come in several parts, if fused is set, and
// reports whether its own do.
func newStage(s *decoderSpec, path string, fused bool) (d decoder, fuses bool, err error) {
	if s == nil {
		return joined(" "), true, nil
	}
	switch s.Type {
	case "Sequence":
		return newStages(s.Decoders, path, fused)
	case "Fuse":
		return joined(""), true, nil
	case "ByteLevel":
		d, fuses = decodeByteLevel, true
	case "ByteFallback":
		d = decodeByteFallback
	case "Replace":
		var replace normalizer
		replace, err = newReplace(s.Pattern, s.Content, path)
		d = each(replace)
	case "Strip":
		if d, err = newStripDecoder(s, path); s.Stop == 0 {
			return d, fused, err
		}
	case "Metaspace":
		d, err = s.metaspaceSpec.decoder(s.AddPrefixSpace, path)
	default:
		err = unsupported(path+".type", s.Type, "ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace",
			"Sequence")
	}
	if fused && err == nil {
		d = atEnd(d)
	}
	return d, fuses, err
}

// newStages applies one decoder after the other.
func newStages(specs []decoderSpec, path string, fused bool) (decoder, bool, error) {
	var steps []decoder
	for i := range specs {
		step, fuses, err := newStage(&specs[i], at(path, "decoders", i), fused)
		if err != nil {
			return nil, false, err
		}
		fused = fused || fuses
		steps = append(steps, step)
	}
	return func() stage {
		stages := make([]stage, len(steps))
		for i, step := range steps {
			stages[i] = step()
		}
		return func(in []part, end bool) []part {
			for _, s := range stages {
				in = s(in, end)
			}
			return in
		}
	}, fused, nil
}

// atEnd is a decoder that has to see a token whole, for tokens that come in parts: there
// is one in all, and it is not whole before the end.
func atEnd(d decoder) decoder {
	return func() stage {
		var whole strings.Builder
		decode := d()
		return func(in []part, end bool) []part {
			for _, p := range in {
				whole.WriteString(p.text)
			}
			if !end {
				return nil
			}
			return decode([]part{{text: whole.String()}}, true)
		}
	}
}

// each applies rewrite to every token by itself.
func each(rewrite func(string) string) decoder {
	return func() stage {
		return func(in []part, _ bool) []part {
			for i := range in {
				in[i].text = rewrite(in[i].text)
			}
			return in
		}
	}
}

// joined makes all tokens one, with a text between them.
func joined(between string) decoder {
	return func() stage {
		begun := false
		return func(in []part, _ bool) []part {
			for i := range in {
				if begun && !in[i].more {
					in[i].text = between + in[i].text
				}
				in[i].more, begun = begun, true
			}
			return in
		}
	}
}

// decodeByteLevel reads characters as the bytes they stand for, and all tokens as one.
func decodeByteLevel() stage {
	var text []byte // a character that may go on in the next token
	begun := false
	return func(in []part, end bool) []part {
		for _, p := range in {
			text = appendCharBytes(text, p.text)
		}
		n := len(text)
		if !end {
			n = wholeRunes(text)
		}
		out := []part{{lossyUTF8(string(text[:n])), begun}}
		text, begun = append(text[:0], text[n:]...), true
		return out
	}
}

// wholeRunes returns how much of text comes before the beginning of a character at its
// end that is not complete.
func wholeRunes(text []byte) int {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(text[i]) {
			if utf8.FullRune(text[i:]) {
				break
			}
			return i
		}
	}
	return len(text)
}

// decodeByteFallback reads tokens like <0x0A> as bytes. Where a run of them is not
// UTF-8, each byte of the run becomes U+FFFD; so nothing of it is certain until it ends.
func decodeByteFallback() stage {
	var run []byte
	return func(in []part, end bool) []part {
		var out []part
		flush := func() {
			switch {
			case len(run) == 0:
			case utf8.Valid(run):
				out = append(out, part{text: string(run)})
			default:
				for range run {
					out = append(out, part{text: "\uFFFD"})
				}
			}
			run = run[:0]
		}
		for _, p := range in {
			if b, ok := byteToken(p.text); ok {
				run = append(run, b)
				continue
			}
			flush()
			out = append(out, p)
		}
		if end {
			flush()
		}
		return out
	}
}

// byteToken returns the byte that a token like <0x0A> stands for.
func byteToken(t string) (byte, bool) {
	if len(t) != 6 || !strings.HasPrefix(t, "<0x") || t[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(t[3:5], 16, 8)
	return byte(b), err == nil
}

// newStripDecoder removes up to Start and Stop times a character from the ends of each token,
// which may come in parts if Stop is 0.
func newStripDecoder(s *decoderSpec, path string) (decoder, error) {
	if s.Content == nil || utf8.RuneCountInString(*s.Content) != 1 {
		return nil, fmt.Errorf("%s.content is not a single character", path)
	}
	return func() stage {
		left := 0 // characters that may still be removed from the token's start
		return func(in []part, _ bool) []part {
			for i := range in {
				p := &in[i]
				if !p.more {
					left = s.Start
				}
				for ; left > 0 && strings.HasPrefix(p.text, *s.Content); left-- {
					p.text = strings.TrimPrefix(p.text, *s.Content)
				}
				if p.text != "" {
					left = 0
				}
				for n := 0; n < s.Stop && strings.HasSuffix(p.text, *s.Content); n++ {
					p.text = strings.TrimSuffix(p.text, *s.Content)
				}
			}
			return in
		}
	}, nil
}

// decoder reads the replacement as a space. In the first token it is dropped, for
// there it was prepended, unless none ever is.
func (s metaspaceSpec) decoder(prefixSpace *bool, path string) (decoder, error) {
	replacement, scheme, err := s.read(prefixSpace, path)
	if err != nil {
		return nil, err
	}
	return func() stage {
		first := scheme != prependNever
		return func(in []part, _ bool) []part {
			for i := range in {
				space := " "
				if first {
					space = ""
				}
				first = false
				in[i].text = strings.ReplaceAll(in[i].text, replacement, space)
			}
			return in
		}
	}, nil
}
