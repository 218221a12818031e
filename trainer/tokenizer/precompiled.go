package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// charsmap is the rules by which a SentencePiece model rewrites texts: a trie of what is replaced, and what comes in
// its place. A file has it as the size of the trie in bytes, a uint32; the trie; and the texts of all replacements,
// each of which ends at a zero byte. Numbers are little-endian.
//
// The trie is a double array (Aoe, "An Efficient Digital Search Algorithm by Using a Double-Array Structure", 1989) as
// the library darts-clone lays it out, which SentencePiece uses. A node is a number, that of the root the root unit's
// offset; unit node^byte is the way on by a byte, if that is its label, and node^byte^offset is then the next node.
type charsmap struct {
	units []unit
	texts string
}

// unit is one of the trie: bits 0 to 7 are the label, bit 8 says that a text ends at the next node, whose own unit
// then has in bits 0 to 30 where the replacement begins, and a set bit 31, which no label has. Bits 10 up are the
// offset, shifted by 8 if bit 9 is set.
type unit uint32

func (u unit) label() uint32 { return uint32(u) & (1<<31 | 0xff) }
func (u unit) ends() bool    { return u>>8&1 == 1 }
func (u unit) value() int    { return int(u & (1<<31 - 1)) }
func (u unit) offset() int   { return int(u >> 10 << ((u >> 9 & 1) * 8)) }

// newCharsmap reads rules; errors are without the field's name.
func newCharsmap(encoded string) (*charsmap, error) {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	if len(data) < 4 {
		return nil, fmt.Errorf("it has %d bytes, and begins with 4 that are the size of the trie", len(data))
	}
	size, rest := int(binary.LittleEndian.Uint32(data)), data[4:]
	if size == 0 || size%4 != 0 || size > len(rest) {
		return nil, fmt.Errorf("the trie is said to have %d bytes, of the %d that follow; it must have "+
			"some, 4 for each unit", size, len(rest))
	}
	m := &charsmap{units: make([]unit, size/4), texts: string(rest[size:])}
	for i := range m.units {
		m.units[i] = unit(binary.LittleEndian.Uint32(rest[4*i:]))
	}
	if !utf8.ValidString(m.texts) {
		return nil, errors.New("the replacements are not UTF-8")
	}
	return m, m.check()
}

// check follows each way through the trie once: a replacement must begin with a character of the texts.
func (m *charsmap) check() error {
	seen, open := map[int]bool{}, []int{m.units[0].offset()}
	for len(open) > 0 {
		node := open[len(open)-1]
		if open = open[:len(open)-1]; seen[node] {
			continue
		}
		seen[node] = true
		for b := 1; b < 256; b++ {
			next, ends, ok := m.step(node, byte(b))
			if !ok {
				continue
			}
			open = append(open, next)
			if !ends {
				continue
			}
			if next >= len(m.units) {
				return fmt.Errorf("a text ends at unit %d of a trie of %d", next, len(m.units))
			}
			at := m.units[next].value()
			if at > len(m.texts) || at < len(m.texts) && !utf8.RuneStart(m.texts[at]) {
				return fmt.Errorf("a replacement begins at byte %d of %d, where no character begins", at, len(m.texts))
			}
		}
	}
	return nil
}

// step goes from a node on by a byte, if there is such a way, and says whether a text ends with it.
func (m *charsmap) step(node int, b byte) (next int, ends, ok bool) {
	at := node ^ int(b)
	if b == 0 || at >= len(m.units) || m.units[at].label() != uint32(b) {
		return 0, false, false
	}
	return at ^ m.units[at].offset(), m.units[at].ends(), true
}

// replacement returns what comes in place of the shortest beginning of text that is replaced, if there is one.
func (m *charsmap) replacement(text string) (string, bool) {
	node := m.units[0].offset()
	for i := range len(text) {
		next, ends, ok := m.step(node, text[i])
		if !ok {
			break
		}
		if ends {
			found := m.texts[m.units[next].value():]
			if end := strings.IndexByte(found, 0); end >= 0 {
				found = found[:end]
			}
			return found, true
		}
		node = next
	}
	return "", false
}

// normalize rewrites a text as Hugging Face's library does, which looks up first what a reader takes for one
// character, if it is short: the replacement of its beginning then replaces all of it. SentencePiece itself takes the
// longest text that a rule replaces.
func (m *charsmap) normalize(text string) string {
	const short = 6 // bytes, which are looked up by characters
	var out strings.Builder
	for text != "" {
		n := cluster(text)
		whole := text[:n]
		text = text[n:]
		if len(whole) < short {
			if s, ok := m.replacement(whole); ok {
				out.WriteString(s)
				continue
			}
		}
		for _, r := range whole {
			s, ok := m.replacement(string(r))
			if !ok {
				s = string(r)
			}
			out.WriteString(s)
		}
	}
	return out.String()
}
