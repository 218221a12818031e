package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// modelSpec is the field "model".
type modelSpec struct {
	Type                    *string          `json:"type"`
	Dropout                 *float64         `json:"dropout"`
	UnkToken                *string          `json:"unk_token"`
	ContinuingSubwordPrefix *string          `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string          `json:"end_of_word_suffix"`
	FuseUnk                 bool             `json:"fuse_unk"`
	ByteFallback            bool             `json:"byte_fallback"`
	IgnoreMerges            bool             `json:"ignore_merges"`
	Vocab                   map[string]int32 `json:"vocab"`
	Merges                  mergeList        `json:"merges"`
}

// mergeList is the model's merges, the strongest first. Old files write one as
// "a b", new ones as ["a", "b"].
type mergeList [][2]string

// UnmarshalJSON reads a list of either form.
func (m *mergeList) UnmarshalJSON(data []byte) error {
	first := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("[")), " \t\r\n")
	if bytes.HasPrefix(first, []byte("[")) {
		return json.Unmarshal(data, (*[][2]string)(m))
	}
	var lines []string
	if err := json.Unmarshal(data, &lines); err != nil {
		return err
	}
	if lines == nil { // null
		return nil
	}
	*m = make(mergeList, len(lines))
	for i, line := range lines {
		left, right, ok := strings.Cut(line, " ")
		if !ok || strings.Contains(right, " ") {
			return fmt.Errorf("model.merges[%d]: %q is not two tokens with a space between", i, line)
		}
		(*m)[i] = [2]string{left, right}
	}
	return nil
}

// bpe is a byte pair encoding model (Sennrich et al., https://aclanthology.org/P16-1162):
// a word begins as its characters, and the two neighbours whose merge ranks first
// become one token, until no two neighbours merge.
type bpe struct {
	vocab        map[string]int32
	merges       map[pair]merge
	bytes        *[256]int32 // the tokens <0x00> to <0xFF>, -1 where absent; nil without byte fallback
	unk          specialID   // stands for a character that is in no token
	fuseUnk      bool        // one unk for a run of such characters
	ignoreMerges bool        // a word that is a token needs no merges
	cache        wordCache
	words        sync.Pool // of *mergeWord, for their storage
}

// pair is two neighbouring tokens.
type pair struct{ left, right int32 }

// merge is what a pair becomes; the lowest rank merges first.
type merge struct{ rank, id int32 }

// newBPE builds the model; its errors begin with the field inside "model".
func newBPE(s *modelSpec, added []addedToken) (*bpe, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	m := &bpe{vocab: s.Vocab, fuseUnk: s.FuseUnk, ignoreMerges: s.IgnoreMerges}
	if err := m.setUnk(s.UnkToken, added); err != nil {
		return nil, err
	}
	if s.ByteFallback {
		m.bytes = byteTokens(s.Vocab)
	}
	m.merges = make(map[pair]merge, len(s.Merges))
	for rank, ab := range s.Merges {
		left, okLeft := m.vocab[ab[0]]
		right, okRight := m.vocab[ab[1]]
		id, ok := m.vocab[ab[0]+ab[1]]
		if !okLeft || !okRight || !ok {
			return nil, fmt.Errorf("merges[%d]: %q: both parts and the whole must be in the vocabulary", rank, ab)
		}
		m.merges[pair{left, right}] = merge{int32(rank), id}
	}
	return m, nil
}

// check refuses the models that differ from the BPE below. Old files have no type.
func (s *modelSpec) check() error {
	if s.Type != nil && *s.Type != "BPE" {
		return unsupported("type", *s.Type, "BPE", "Unigram")
	}
	if s.Merges == nil {
		return errors.New("merges is absent; supported: a BPE model with merges")
	}
	if len(s.Vocab) == 0 {
		return errors.New("vocab is absent or empty")
	}
	if s.Dropout != nil && *s.Dropout != 0 {
		return unsupported("dropout", fmt.Sprint(*s.Dropout), "null, 0")
	}
	if p := s.ContinuingSubwordPrefix; p != nil && *p != "" {
		return unsupported("continuing_subword_prefix", *p, `null, ""`)
	}
	if p := s.EndOfWordSuffix; p != nil && *p != "" {
		return unsupported("end_of_word_suffix", *p, `null, ""`)
	}
	return nil
}

// setUnk finds the id of the token for unknown characters; some files have it only
// among the added tokens.
func (m *bpe) setUnk(token *string, added []addedToken) error {
	if token == nil || *token == "" {
		return nil
	}
	if id, ok := m.vocab[*token]; ok {
		m.unk = specialID{id, true}
		return nil
	}
	for _, a := range added {
		if a.Content == *token {
			m.unk = specialID{a.ID, true}
			return nil
		}
	}
	return fmt.Errorf("unk_token: %q is not in the vocabulary; add it or set unk_token to null", *token)
}

// byteTokens returns the ids of the tokens that stand for one byte.
func byteTokens(v map[string]int32) *[256]int32 {
	ids := new([256]int32)
	for b := range ids {
		id, ok := v[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			id = -1
		}
		ids[b] = id
	}
	return ids
}

// ids implements model.
func (m *bpe) ids() map[string]int32 { return m.vocab }

// encode appends the tokens of word to ids.
func (m *bpe) encode(ids []int32, word string) []int32 {
	if word == "" {
		return ids
	}
	if m.ignoreMerges {
		if id, ok := m.vocab[word]; ok {
			return append(ids, id)
		}
	}
	if tokens, ok := m.cache.get(word); ok {
		return append(ids, tokens...)
	}
	w, ok := m.words.Get().(*mergeWord)
	if !ok {
		w = new(mergeWord)
	}
	defer m.words.Put(w)
	m.symbols(w, word)
	w.mergeAll(m.merges)
	n := len(ids)
	for i := int32(0); i < int32(len(w.symbols)); i = w.symbols[i].next {
		ids = append(ids, w.symbols[i].id)
	}
	m.cache.put(word, ids[n:])
	return ids
}

// symbols fills w with the tokens of the single characters of word.
func (m *bpe) symbols(w *mergeWord, word string) {
	w.reset()
	unk := false // an unk is due before the next known character
	flush := func() {
		if unk {
			w.add(m.unk.id)
		}
		unk = false
	}
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		char := word[i : i+n]
		i += n
		if id, ok := m.vocab[char]; ok {
			flush()
			w.add(id)
			continue
		}
		if m.addBytes(w, char) {
			continue
		}
		if !m.fuseUnk {
			flush()
		}
		unk = m.unk.ok
	}
	flush()
}

// addBytes adds one token for each byte of char, if there is one for all of them.
func (m *bpe) addBytes(w *mergeWord, char string) bool {
	if m.bytes == nil {
		return false
	}
	for i := range len(char) {
		if m.bytes[char[i]] < 0 {
			return false
		}
	}
	for i := range len(char) {
		w.add(m.bytes[char[i]])
	}
	return true
}
