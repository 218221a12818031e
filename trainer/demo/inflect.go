package demo

import (
	"slices"
	"strings"
)

// plural returns the regular English plural of a noun: y after a consonant becomes ies, a
// hissing sound takes es, all else s.
func plural(noun string) string {
	switch {
	case endsInConsonantY(noun):
		return noun[:len(noun)-1] + "ies"
	case hisses(noun):
		return noun + "es"
	}
	return noun + "s"
}

// past returns the regular English past tense of a verb: y after a consonant becomes
// ied, e takes d, a short syllable doubles its last letter, all else takes ed.
func past(verb string) string {
	last := verb[len(verb)-1:]
	switch {
	case endsInConsonantY(verb):
		return verb[:len(verb)-1] + "ied"
	case last == "e":
		return verb + "d"
	case doubles(verb):
		return verb + last + "ed"
	}
	return verb + "ed"
}

// isVowel takes y for a consonant.
func isVowel(letter byte) bool { return strings.IndexByte("aeiou", letter) >= 0 }

func endsInConsonantY(word string) bool {
	n := len(word)
	return n > 1 && word[n-1] == 'y' && !isVowel(word[n-2])
}

func hisses(word string) bool {
	return slices.ContainsFunc([]string{"s", "x", "z", "ch", "sh"}, func(end string) bool {
		return strings.HasSuffix(word, end)
	})
}

// doubles reports whether a verb's last letter doubles before ed: a consonant after the
// only vowel, as in zibbed. Longer words, as if stressed on their first syllable, do not:
// visited. Nor do w, x and y ever.
func doubles(verb string) bool {
	vowels := 0
	for i := range len(verb) {
		if isVowel(verb[i]) {
			vowels++
		}
	}
	n := len(verb)
	return vowels == 1 && n > 1 && isVowel(verb[n-2]) && strings.IndexByte("wxy", verb[n-1]) < 0
}
