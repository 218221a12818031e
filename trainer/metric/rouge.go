package metric

import (
	"strings"
	"unicode"
)

// Rouge returns the ROUGE-L of an answer: the F-measure of the longest common subsequence of both texts' words, with
// precision and recall alike (beta 1). See Lin, "ROUGE: A Package for Automatic Evaluation of Summaries" (2004),
// section 3. Two texts without a word are alike.
func Rouge(expected, generated string) float64 {
	x, y := words(expected), words(generated)
	if len(x) == 0 && len(y) == 0 {
		return 1
	}
	common := float64(longestCommon(x, y))
	if common == 0 {
		return 0
	}
	recall, precision := common/float64(len(x)), common/float64(len(y))
	return 2 * recall * precision / (recall + precision)
}

// words returns the runs of letters and digits of a text in lower case. Of scripts that put no space between words,
// each character is one.
func words(text string) (all []string) {
	var run strings.Builder
	end := func() {
		if run.Len() > 0 {
			all = append(all, run.String())
			run.Reset()
		}
	}
	for _, r := range strings.ToLower(text) {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			end()
			all = append(all, string(r))
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			run.WriteRune(r)
		default:
			end()
		}
	}
	end()
	return all
}

// longestCommon returns the length of the longest common subsequence.
func longestCommon(x, y []string) int {
	row := make([]int, len(y)+1) // of the words of x so far and the first of y
	for _, a := range x {
		diagonal := 0
		for j, b := range y {
			above := row[j+1]
			if a == b {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			diagonal = above
		}
	}
	return row[len(y)]
}
