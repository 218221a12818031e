package tokenizer

import (
	"slices"
	"strings"
	"sync"
)

const (
	maxCachedWord  = 64      // bytes; longer words hardly come twice
	maxCachedWords = 1 << 16 // some 10 MB
)

// wordCache remembers the tokens of words: natural text says few words often. When
// it is full it starts anew, so that it follows the text.
type wordCache struct {
	mu    sync.RWMutex
	words map[string][]int32
}

// get returns the tokens of word, not to be changed.
func (c *wordCache) get(word string) ([]int32, bool) {
	if len(word) > maxCachedWord {
		return nil, false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	tokens, ok := c.words[word]
	return tokens, ok
}

// put stores a copy of the tokens of word; word is copied too, for it may be part
// of a long text that would be kept alive.
func (c *wordCache) put(word string, tokens []int32) {
	if len(word) > maxCachedWord {
		return
	}
	word, tokens = strings.Clone(word), slices.Clone(tokens)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.words == nil || len(c.words) >= maxCachedWords {
		c.words = make(map[string][]int32)
	}
	c.words[word] = tokens
}
