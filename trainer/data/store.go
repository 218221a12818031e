package data

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Store keeps tokenised examples: in memory while they are few, in a temporary file once
// they are more, so that a corpus of any size needs little memory: 8 bytes an example
// besides a buffer. A Store is for one goroutine. Close it.
type Store struct {
	ends  []int64 // where each example ends, in tokens
	tail  []int32 // the tokens that are not in the file
	saved int64   // tokens in the file
	limit int     // of tokens in memory
	file  *os.File
	bytes []byte // to read and write the file with
	pairs []pair // of each example, if there are examples of two answers
}

// Part is an answer with its prompt.
type Part struct {
	IDs   []int32
	Learn []bool // of each token
	Role  Role
}

// pair says where the second answer of an example begins, with how many tokens both do that a row has once, and what
// they are.
type pair struct {
	first, common int32
	roles         [2]Role
}

// inMemory is the number of tokens that the stores of NewStore keep in memory: 16 MiB of them.
const inMemory = 4 << 20

// NewStore returns an empty store. Its file, if it comes to need one, is made in $TMPDIR
// or else in the user's cache folder, because /tmp is memory on many machines.
func NewStore() *Store { return &Store{limit: inMemory} }

// A token is kept in one number, which is negative if it is not to be learned.

func encode(id int32, learn bool) int32 {
	if learn {
		return id
	}
	return ^id
}

func decode(v int32) (id int32, learn bool) {
	if v < 0 {
		return ^v, false
	}
	return v, true
}

// Add appends an example: its token ids, and for each whether it is to be learned. A nil
// learn stands for all of them. Ids must not be negative.
func (s *Store) Add(ids []int32, learn []bool) error {
	for i, id := range ids {
		s.tail = append(s.tail, encode(id, learn == nil || learn[i]))
	}
	s.ends = append(s.ends, s.saved+int64(len(s.tail)))
	if len(s.tail) > s.limit {
		return s.spill()
	}
	return nil
}

// AddPair appends an example of two answers, whose tokens do not see each other. The first so many tokens, no more
// than Common says, stand in a row once.
func (s *Store) AddPair(first, second Part, common int) error {
	s.pairs = append(s.pairs, make([]pair, s.Len()-len(s.pairs))...)
	s.pairs = append(s.pairs, pair{int32(len(first.IDs)), int32(common), [2]Role{first.Role, second.Role}})
	return s.Add(slices.Concat(first.IDs, second.IDs), slices.Concat(first.Learn, second.Learn))
}

// pair returns what AddPair was told of example i; nil if it is one text.
func (s *Store) pair(i int) *pair {
	if i < len(s.pairs) && s.pairs[i].first > 0 {
		return &s.pairs[i]
	}
	return nil
}

// Parts returns example i as one part, or as the two that AddPair took.
func (s *Store) Parts(i int) ([]Part, error) {
	ids, learn, err := s.Example(i)
	p := s.pair(i)
	if p == nil || err != nil {
		return []Part{{ids, learn, Plain}}, err
	}
	return []Part{{ids[:p.first], learn[:p.first], p.roles[0]}, {ids[p.first:], learn[p.first:], p.roles[1]}}, nil
}

// Len returns the number of examples.
func (s *Store) Len() int { return len(s.ends) }

// Tokens returns the number of tokens of example i.
func (s *Store) Tokens(i int) int { return int(s.ends[i] - s.start(i)) }

// Places returns the number of places that example i takes in a row.
func (s *Store) Places(i int) int {
	if p := s.pair(i); p != nil {
		return s.Tokens(i) - int(p.common)
	}
	return s.Tokens(i)
}

func (s *Store) start(i int) int64 {
	if i == 0 {
		return 0
	}
	return s.ends[i-1]
}

// Example returns example i as Add took it.
func (s *Store) Example(i int) (ids []int32, learn []bool, err error) {
	n := s.Tokens(i)
	ids, learn = make([]int32, n), make([]bool, n)
	part, err := s.read(i, 0, n)
	for k, v := range part {
		ids[k], learn[k] = decode(v)
	}
	return ids, learn, err
}

// read returns n encoded tokens of example i, from the given one on. They are valid until
// the next call.
func (s *Store) read(i, from, n int) ([]int32, error) {
	at := s.start(i) + int64(from)
	if at >= s.saved { // Add saves whole examples
		return s.tail[at-s.saved:][:n], nil
	}
	s.bytes = slices.Grow(s.bytes[:0], 4*n)[:4*n]
	tokens := make([]int32, n)
	_, err := s.file.ReadAt(s.bytes, 4*at)
	if err == nil {
		_, err = binary.Decode(s.bytes, binary.LittleEndian, tokens)
	}
	if err != nil {
		return nil, fmt.Errorf("data: read tokens back: %w", err)
	}
	return tokens, nil
}

// spill moves the tokens in memory to the end of the file.
func (s *Store) spill() error {
	if s.file == nil {
		if err := s.create(); err != nil {
			return fmt.Errorf("data: the tokens do not fit in memory, and there is no file for them: %w; set TMPDIR to a "+
				"folder on disk", err)
		}
	}
	const chunk = 1 << 16 // tokens
	for rest := s.tail; len(rest) > 0; {
		part := rest[:min(chunk, len(rest))]
		var err error
		if s.bytes, err = binary.Append(s.bytes[:0], binary.LittleEndian, part); err == nil {
			_, err = s.file.Write(s.bytes)
		}
		if err != nil {
			return fmt.Errorf("data: keep tokens on disk: %w; set TMPDIR to a folder with more room", err)
		}
		rest = rest[len(part):]
	}
	s.saved += int64(len(s.tail))
	s.tail = s.tail[:0]
	return nil
}

// create makes the file. Where the system allows it, the name is gone at once, so that
// even a killed run leaves nothing behind.
func (s *Store) create() error {
	dir := os.Getenv("TMPDIR")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		dir = filepath.Join(cache, "tune")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "tokens-*")
	if err != nil {
		return err
	}
	s.file = f
	_ = os.Remove(f.Name()) // Close tries again
	return nil
}

// Close removes the file. The store's examples are gone then.
func (s *Store) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	_ = os.Remove(s.file.Name()) // it is gone already, but for Windows
	*s = Store{limit: s.limit}
	return err
}
