package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// cluster returns the length of the first extended grapheme cluster of a text, what a reader takes for one character
// (https://unicode.org/reports/tr29, rules GB3 to GB13 without GB9c: consonants that a virama joins stay apart).
func cluster(text string) int {
	r, at := utf8.DecodeRuneInString(text)
	last := joining(r)
	if last == joinCR && at < len(text) && text[at] == '\n' {
		return at + 1
	}
	flags, emoji := 0, false // how many halves of flags are at the end; whether an emoji and its marks are
	for at < len(text) {
		switch last {
		case joinFlag:
			flags++
			emoji = false
		case joinEmoji:
			flags, emoji = 0, true
		case joinMark, joinZWJ:
			flags = 0
		default:
			flags, emoji = 0, false
		}
		r, n := utf8.DecodeRuneInString(text[at:])
		next := joining(r)
		if !joins(last, next) && !(next == joinEmoji && last == joinZWJ && emoji) &&
			!(next == joinFlag && flags%2 == 1) {
			break
		}
		if last == joinZWJ && next != joinEmoji {
			emoji = false
		}
		last, at = next, at+n
	}
	return at
}

// joint is how a character goes together with those beside it.
type joint int

const (
	joinNot joint = iota
	joinCR
	joinControl
	joinMark    // extends what is before it
	joinZWJ     // does, too, and joins emoji
	joinSpacing // a mark with a width of its own
	joinBefore  // goes with what is behind it
	joinL       // the letters of Hangul, and syllables that end in a vowel or a consonant
	joinV
	joinT
	joinLV
	joinLVT
	joinFlag // half of one
	joinEmoji
)

// joins reports whether two neighbours go together, whatever is before them.
func joins(a, b joint) bool {
	switch {
	case a == joinCR || a == joinControl || b == joinCR || b == joinControl:
		return false
	case b == joinMark || b == joinZWJ || b == joinSpacing || a == joinBefore:
		return true
	}
	switch a {
	case joinL:
		return b == joinL || b == joinV || b == joinLV || b == joinLVT
	case joinV, joinLV:
		return b == joinV || b == joinT
	case joinT, joinLVT:
		return b == joinT
	}
	return false
}

// joining returns how r joins. Of Unicode 15, whose properties Go has, but for what is listed below.
func joining(r rune) joint {
	switch {
	case r == '\r':
		return joinCR
	case r >= ' ' && r < 0x7f:
		return joinNot
	case r == '\u200d':
		return joinZWJ
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Grapheme_Extend) || r >= 0x1f3fb && r <= 0x1f3ff:
		return joinMark
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r) || within(prefixes, r):
		return joinBefore
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || within(ignorable, r):
		return joinControl
	case unicode.Is(unicode.Mc, r) && !within(apart, r) || r == 0xe33 || r == 0xeb3:
		return joinSpacing
	case r >= 0x1f1e6 && r <= 0x1f1ff:
		return joinFlag
	case within(pictographs, r):
		return joinEmoji
	}
	return hangul(r)
}

// hangul returns how a letter or syllable of Hangul joins, joinNot for any other character.
func hangul(r rune) joint {
	switch {
	case r >= 0x1100 && r <= 0x115f || r >= 0xa960 && r <= 0xa97c:
		return joinL
	case r >= 0x1160 && r <= 0x11a7 || r >= 0xd7b0 && r <= 0xd7c6:
		return joinV
	case r >= 0x11a8 && r <= 0x11ff || r >= 0xd7cb && r <= 0xd7fb:
		return joinT
	case r >= 0xac00 && r <= 0xd7a3 && (r-0xac00)%28 == 0:
		return joinLV
	case r >= 0xac00 && r <= 0xd7a3:
		return joinLVT
	}
	return joinNot
}

// within reports whether r is in one of the ranges, of which each is its first and its last character.
func within(ranges [][2]rune, r rune) bool {
	for _, x := range ranges {
		if r <= x[1] {
			return r >= x[0]
		}
	}
	return false
}

// Sorted ranges of properties that Go does not have.
var (
	// prefixes are the letters of Indic scripts that are written before a consonant.
	prefixes = [][2]rune{{0xd4e, 0xd4e}, {0x111c2, 0x111c3}, {0x1193f, 0x1193f}, {0x11941, 0x11941},
		{0x11a3a, 0x11a3a}, {0x11a84, 0x11a89}, {0x11d46, 0x11d46}, {0x11f02, 0x11f02}}
	// ignorable has no characters yet, and will have none that are seen.
	ignorable = [][2]rune{{0x2065, 0x2065}, {0xfff0, 0xfff8}, {0xe0000, 0xe0000}, {0xe0002, 0xe001f},
		{0xe0080, 0xe00ff}, {0xe01f0, 0xe0fff}}
	// apart are marks that the standard takes out.
	apart = [][2]rune{{0x102b, 0x102c}, {0x1038, 0x1038}, {0x1062, 0x1064}, {0x1067, 0x106d}, {0x1083, 0x1083},
		{0x1087, 0x108c}, {0x108f, 0x108f}, {0x109a, 0x109c}, {0x1a61, 0x1a61}, {0x1a63, 0x1a64}, {0xaa7b, 0xaa7b},
		{0xaa7d, 0xaa7d}, {0x11720, 0x11721}}
	// pictographs is Extended_Pictographic.
	pictographs = [][2]rune{{0xa9, 0xa9}, {0xae, 0xae}, {0x203c, 0x203c}, {0x2049, 0x2049}, {0x2122, 0x2122},
		{0x2139, 0x2139}, {0x2194, 0x2199}, {0x21a9, 0x21aa}, {0x231a, 0x231b}, {0x2328, 0x2328}, {0x2388, 0x2388},
		{0x23cf, 0x23cf}, {0x23e9, 0x23f3}, {0x23f8, 0x23fa}, {0x24c2, 0x24c2}, {0x25aa, 0x25ab}, {0x25b6, 0x25b6},
		{0x25c0, 0x25c0}, {0x25fb, 0x25fe}, {0x2600, 0x2605}, {0x2607, 0x2612}, {0x2614, 0x2685}, {0x2690, 0x2705},
		{0x2708, 0x2712}, {0x2714, 0x2714}, {0x2716, 0x2716}, {0x271d, 0x271d}, {0x2721, 0x2721}, {0x2728, 0x2728},
		{0x2733, 0x2734}, {0x2744, 0x2744}, {0x2747, 0x2747}, {0x274c, 0x274c}, {0x274e, 0x274e}, {0x2753, 0x2755},
		{0x2757, 0x2757}, {0x2763, 0x2767}, {0x2795, 0x2797}, {0x27a1, 0x27a1}, {0x27b0, 0x27b0}, {0x27bf, 0x27bf},
		{0x2934, 0x2935}, {0x2b05, 0x2b07}, {0x2b1b, 0x2b1c}, {0x2b50, 0x2b50}, {0x2b55, 0x2b55}, {0x3030, 0x3030},
		{0x303d, 0x303d}, {0x3297, 0x3297}, {0x3299, 0x3299}, {0x1f000, 0x1f0ff}, {0x1f10d, 0x1f10f},
		{0x1f12f, 0x1f12f}, {0x1f16c, 0x1f171}, {0x1f17e, 0x1f17f}, {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a},
		{0x1f1ad, 0x1f1e5}, {0x1f201, 0x1f20f}, {0x1f21a, 0x1f21a}, {0x1f22f, 0x1f22f}, {0x1f232, 0x1f23a},
		{0x1f23c, 0x1f23f}, {0x1f249, 0x1f3fa}, {0x1f400, 0x1f53d}, {0x1f546, 0x1f64f}, {0x1f680, 0x1f6ff},
		{0x1f774, 0x1f77f}, {0x1f7d5, 0x1f7ff}, {0x1f80c, 0x1f80f}, {0x1f848, 0x1f84f}, {0x1f85a, 0x1f85f},
		{0x1f888, 0x1f88f}, {0x1f8ae, 0x1f8ff}, {0x1f90c, 0x1f93a}, {0x1f93c, 0x1f945}, {0x1f947, 0x1faff},
		{0x1fc00, 0x1fffd}}
)
