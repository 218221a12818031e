package main

import (
	"strings"

	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// question is the prompt of a conversation and the answer that is expected.
type question struct {
	prompt []int32
	answer string
	stop   []int32 // the special token that ends the answer, if one does
}

// questions returns what a conversation asks first, for each conversation of the data.
func questions(c *corpus.Corpus, tok *tokenizer.Tokenizer) ([]question, error) {
	var all []question
	for i := range c.Report.Examples {
		_, parts, err := c.Example(i)
		if err != nil {
			return nil, err
		}
		if q, ok := ask(parts[0].IDs, parts[0].Learn, tok); ok {
			all = append(all, q)
		}
	}
	return all, nil
}

// ask cuts a conversation where the model's first answer begins and ends. A document,
// where everything is learned, asks nothing.
func ask(ids []int32, learn []bool, tok *tokenizer.Tokenizer) (question, bool) {
	from := 0
	for from < len(learn) && !learn[from] {
		from++
	}
	if from == 0 || from == len(learn) {
		return question{}, false
	}
	to := from
	for to < len(learn) && learn[to] {
		to++
	}
	q := question{prompt: ids[:from], answer: strings.TrimSpace(tok.Decode(ids[from:to], true))}
	if last := ids[to-1 : to]; tok.Decode(last, true) == "" {
		q.stop = last
	}
	return q, q.answer != ""
}
