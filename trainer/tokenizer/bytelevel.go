package tokenizer

import "strings"

// Byte-level vocabularies write each byte as a visible character: those that are
// visible in Latin-1 as themselves, the others as the characters from U+0100 on.
// byteChars maps bytes to characters, charBytes characters to bytes (-1: to none).
var byteChars, charBytes = byteTables()

// byteTables returns both mappings.
func byteTables() (chars [256]string, bytes [512]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	next := rune(256)
	for b := range rune(256) {
		r := b
		if b < '!' || b > '~' && b < '¡' || b == '\u00ad' {
			r = next
			next++
		}
		chars[b], bytes[r] = string(r), int16(b)
	}
	return chars, bytes
}

// bytesToChars writes each byte of text as its character.
func bytesToChars(text string) string {
	plain := true
	for i := 0; i < len(text) && plain; i++ {
		plain = text[i] >= '!' && text[i] <= '~'
	}
	if plain {
		return text
	}
	var out strings.Builder
	out.Grow(2 * len(text))
	for i := range len(text) {
		out.WriteString(byteChars[text[i]])
	}
	return out.String()
}

// appendCharBytes appends the bytes that the characters of token stand for, or
// token as it is if one of them stands for none.
func appendCharBytes(dst []byte, token string) []byte {
	n := len(dst)
	for _, r := range token {
		if int(r) >= len(charBytes) || charBytes[r] < 0 {
			return append(dst[:n], token...)
		}
		dst = append(dst, byte(charBytes[r]))
	}
	return dst
}
