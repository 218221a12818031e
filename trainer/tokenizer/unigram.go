package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// unigramFile is tokenizer.json with a Unigram model.
type unigramFile struct {
	file
	Model unigramSpec `json:"model"` // instead of the file's
}

// unigramSpec is the field "model" of such a file.
type unigramSpec struct {
	UnkID        *int              `json:"unk_id"`
	Vocab        []json.RawMessage `json:"vocab"` // [token, score], by id
	ByteFallback bool              `json:"byte_fallback"`
}

// unigram is a unigram language model (Kudo, https://aclanthology.org/P18-1007): each token has a score, the logarithm
// of its probability, and a word is cut into those tokens whose scores have the largest sum. A character that is no
// token by itself may stand alone, for less than any token has; neighbours of that kind are one unknown token, or one for
// each of their bytes.
type unigram struct {
	vocab   map[string]int32
	sorted  []scored
	unk     int32
	unknown float64     // the score of an unknown character
	bytes   *[256]int32 // as those of bpe
	cache   wordCache
}

// scored is a token.
type scored struct {
	text  string
	id    int32
	score float64
}

// unknownPenalty is how far the score of an unknown character is below the least.
const unknownPenalty = 10

// newUnigram builds the model; its errors begin with the field inside "model".
func newUnigram(s *unigramSpec) (*unigram, error) {
	switch n := len(s.Vocab); {
	case n == 0:
		return nil, errors.New("vocab is absent or empty")
	case n > math.MaxInt32:
		return nil, errors.New("vocab has more tokens than there are ids")
	case s.UnkID == nil:
		return nil, errors.New("unk_id is absent; a character that is in no token needs one: set it")
	case *s.UnkID < 0 || *s.UnkID >= n:
		return nil, fmt.Errorf("unk_id is %d, and there are %d tokens", *s.UnkID, n)
	}
	m := &unigram{vocab: make(map[string]int32, len(s.Vocab)), unk: int32(*s.UnkID), unknown: math.Inf(1)}
	for i, data := range s.Vocab {
		t := scored{id: int32(i)}
		pair := []any{&t.text, &t.score}
		if err := json.Unmarshal(data, &pair); err != nil || len(pair) != 2 || pair[0] == nil || pair[1] == nil {
			return nil, fmt.Errorf("vocab[%d] is not a token and its score", i)
		}
		if _, twice := m.vocab[t.text]; twice {
			return nil, fmt.Errorf("vocab[%d]: %q is there twice; remove one", i, t.text)
		}
		m.vocab[t.text] = t.id
		m.unknown = min(m.unknown, t.score)
		if t.text != "" {
			m.sorted = append(m.sorted, t)
		}
	}
	m.unknown -= unknownPenalty
	slices.SortFunc(m.sorted, func(a, b scored) int { return strings.Compare(a.text, b.text) })
	if s.ByteFallback {
		m.bytes = byteTokens(m.vocab)
	}
	return m, nil
}

// ids implements model.
func (m *unigram) ids() map[string]int32 { return m.vocab }

// step is the best way to a place in a word: its last token and where that begins. An id of -1 is an unknown character.
type step struct {
	from  int
	id    int32
	score float64
}

// encode implements model.
func (m *unigram) encode(ids []int32, word string) []int32 {
	if word == "" {
		return ids
	}
	if tokens, ok := m.cache.get(word); ok {
		return append(ids, tokens...)
	}
	best, n := m.best(word), len(ids)
	var ends []int // of tokens, the last first
	for end := len(word); end > 0; end = best[end].from {
		ends = append(ends, end)
	}
	slices.Reverse(ends)
	for i := 0; i < len(ends); i++ {
		s := best[ends[i]]
		if s.id >= 0 && s.id != m.unk {
			ids = append(ids, s.id)
			continue
		}
		for i+1 < len(ends) && (best[ends[i+1]].id < 0 || best[ends[i+1]].id == m.unk) {
			i++
		}
		ids = m.unknownTo(ids, word[s.from:ends[i]])
	}
	m.cache.put(word, ids[n:])
	return ids
}

// unknownTo appends the tokens of neighbouring unknown characters.
func (m *unigram) unknownTo(ids []int32, text string) []int32 {
	if id, ok := m.vocab[text]; ok {
		return append(ids, id)
	}
	for i := 0; m.bytes != nil && m.bytes[text[i]] >= 0; i++ {
		if i+1 == len(text) {
			for _, b := range []byte(text) {
				ids = append(ids, m.bytes[b])
			}
			return ids
		}
	}
	return append(ids, m.unk)
}

// best returns the best way to each place of a word that has one, by the algorithm of Viterbi. Of equal ways the one
// whose last token begins first is the best.
func (m *unigram) best(word string) []step {
	best := make([]step, len(word)+1)
	for i := 1; i < len(best); i++ {
		best[i].from = -1 // there is none yet
	}
	better := func(end int, s step) {
		if best[end].from < 0 || s.score > best[end].score {
			best[end] = s
		}
	}
	for from := 0; from < len(word); {
		_, size := utf8.DecodeRuneInString(word[from:])
		single, so := false, best[from].score
		m.prefixes(word[from:], func(t scored) {
			better(from+len(t.text), step{from, t.id, so + t.score})
			single = single || len(t.text) == size
		})
		if !single {
			better(from+size, step{from, -1, so + m.unknown})
		}
		from += size
	}
	return best
}

// prefixes calls f for each token that text begins with, the shortest first: they are found among the sorted tokens,
// fewer of which are left with each byte.
func (m *unigram) prefixes(text string, f func(scored)) {
	left := m.sorted
	for i := range len(text) {
		from, _ := slices.BinarySearchFunc(left, int(text[i]), func(t scored, b int) int { return byteAt(t.text, i) - b })
		end, _ := slices.BinarySearchFunc(left, int(text[i])+1, func(t scored, b int) int { return byteAt(t.text, i) - b })
		if left = left[from:end]; len(left) == 0 {
			return
		}
		if len(left[0].text) == i+1 {
			f(left[0])
		}
	}
}

// byteAt returns a byte of a token, -1 behind its end.
func byteAt(token string, i int) int {
	if i >= len(token) {
		return -1
	}
	return int(token[i])
}
