package demo

import (
	"fmt"
	"strings"
	"testing"
)

func TestSummaryFitsATerminal(t *testing.T) {
	train, held := corpus()
	for _, e := range append(held, train...) {
		s := &Score{Right: 1e6, Total: 1e6, Answers: []Answer{{Example: e, Got: e.Want + strings.Repeat("x", 20)}}}
		for _, line := range strings.Split(Summary(s, s), "\n") {
			if len(line) > 80 {
				t.Fatalf("%d columns: %s", len(line), line)
			}
		}
	}
}

func ExampleSummary() {
	before := &Score{Right: 0, Total: 3, Answers: []Answer{
		{Example: noun("wug"), Got: "qzqzqzqzqzqzqzqzqz"}, {Example: verb("zib"), Got: "a"},
		{Example: verb("mot"), Got: "b"},
	}}
	after := &Score{Right: 2, Total: 3, Answers: []Answer{
		{Example: noun("wug"), Got: "wugs", Right: true}, {Example: verb("zib"), Got: "zibed"},
		{Example: verb("mot"), Got: "motted", Right: true},
	}}
	fmt.Print(Summary(before, after))
	// Output:
	// The wug test: made-up words that are not in the training data.
	//
	//   the model reads     should say   said at first     says now
	//   one wug, two        wugs         qzqzqzqzqzqzqz..  wugs          right
	//   to zib, it          zibbed       a                 zibed         wrong
	//   to mot, it          motted       b                 motted        right
	//
	//   before training    0 of 3 right (0.0%)
	//   after training     2 of 3 right (66.7%)
}
