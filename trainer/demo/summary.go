package demo

import (
	"fmt"
	"strings"
)

// Summary tells a person how the check went before and after the training, in lines of
// at most 80 columns: the words of the original test, some mistakes on the others if
// there are any, and the scores. Both scores must be of one Demo.
func Summary(before, after *Score) string {
	const words, mistakes = 6, 2
	var b strings.Builder
	b.WriteString("The wug test: made-up words that are not in the training data.\n\n")
	columns(&b, "the model reads", "should say", "said at first", "says now", "")
	shown := 0
	for i, a := range after.Answers {
		if i < words || !a.Right && shown < words+mistakes {
			shown++
			columns(&b, a.Prompt, a.Want, before.Answers[i].Got, a.Got, verdict(a.Right))
		}
	}
	fmt.Fprintf(&b, "\n  before training  %s\n  after training   %s\n", before, after)
	return b.String()
}

// String returns the number of right answers.
func (s *Score) String() string {
	return fmt.Sprintf("%3d of %d right (%.1f%%)", s.Right, s.Total, 100*float64(s.Right)/float64(max(s.Total, 1)))
}

func verdict(right bool) string {
	if right {
		return "right"
	}
	return "wrong"
}

// columns writes a line of the table, without spaces at its end.
func columns(b *strings.Builder, cells ...string) {
	widths := []int{18, 11, 16, 12, 5}
	line := " "
	for i, cell := range cells {
		if len(cell) > widths[i] {
			cell = cell[:widths[i]-2] + ".."
		}
		line += fmt.Sprintf(" %-*s ", widths[i], cell)
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}
