// Package nearest finds the name that somebody meant who typed another.
package nearest

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Name returns the known name that is nearest to what was typed, if one is so near that it
// is likely meant: typed begins it, or is made of some of its words, or ends with it as a word, or
// differs from it in few letters: one, and one more for every four letters beyond the first
// four. A name that is likely to be another thing is no help.
func Name(typed string, known []string) (name string, ok bool) {
	best := 0
	for _, candidate := range known {
		if !near(typed, candidate) {
			continue
		}
		if d := Distance(typed, candidate); name == "" || d < best {
			name, best = candidate, d
		}
	}
	return name, name != ""
}

// OneOf returns an error unless a value is one of those that are known. It lists them, and says which was likely
// meant.
func OneOf(what, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	meant := ""
	if name, ok := Name(value, known); ok {
		meant = "; did you mean " + name + "?"
	}
	return fmt.Errorf("%s is %q; it takes %s%s", what, value, strings.Join(known, ", "), meant)
}

func near(typed, name string) bool {
	if typed == "" || name == "" {
		return false
	}
	a, b := strings.ToLower(typed), strings.ToLower(name)
	if strings.HasPrefix(b, a) {
		return true
	}
	typedWords, words := wordsOf(a), wordsOf(b)
	if len(typedWords) > 1 && (within(typedWords, words) || slices.Equal(typedWords[1:], words)) {
		return true
	}
	shorter := min(len([]rune(a)), len([]rune(b)))
	return shorter > 2 && Distance(a, b) <= 1+max(0, shorter-4)/4
}

func wordsOf(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// within reports whether all words are among those of a name, in this order, and the last
// of both is the same: it says what the name is of.
func within(words, name []string) bool {
	if len(name) == 0 || words[len(words)-1] != name[len(name)-1] {
		return false
	}
	for _, w := range name {
		if len(words) > 0 && words[0] == w {
			words = words[1:]
		}
	}
	return len(words) == 0
}

// Distance is how many letters must be added, left out, replaced or exchanged with their
// neighbour (optimal string alignment).
func Distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	var before, above []int
	row := make([]int, len(t)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(s); i++ {
		before, above, row = above, row, make([]int, len(t)+1)
		row[0] = i
		for j := 1; j <= len(t); j++ {
			row[j] = min(above[j], row[j-1]) + 1
			same := 1
			if s[i-1] == t[j-1] {
				same = 0
			}
			row[j] = min(row[j], above[j-1]+same)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(t)]
}
