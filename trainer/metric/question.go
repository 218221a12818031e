package metric

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// Question is the prompt of a conversation and the answer that is expected.
type Question struct {
	Data   string // the evaluation set, where there are several
	Prompt []int32
	Answer string
	Stop   []int32 // the special token that ends the answer, if one does

	example int // its number, which is the order of reading
}

// Questions returns what the conversations of a set's rows ask first, in the order in which the data was read. Texts,
// all of which is learned, ask nothing.
func Questions(set string, rows data.Rows, tok *tokenizer.Tokenizer) ([]Question, error) {
	var all []Question
	for i := range rows.Len() {
		r, err := rows.Row(i)
		if err != nil {
			return nil, err
		}
		examples := data.Examples(rows, i)
		for k, p := range parts(r) {
			q, ok := ask(r.IDs[p[0]:p[1]], r.Labels[p[0]:p[1]], tok)
			if !ok {
				continue
			}
			if q.Data = set; k < len(examples) {
				q.example = examples[k]
			}
			all = append(all, q)
		}
	}
	slices.SortStableFunc(all, func(a, b Question) int { return cmp.Compare(a.example, b.example) })
	return all, nil
}

// parts returns where the parts of a row begin and end.
func parts(r data.Row) (all [][2]int) {
	for from := 0; from < len(r.Segments) && r.Segments[from] != 0; {
		to := from
		for to < len(r.Segments) && r.Segments[to] == r.Segments[from] {
			to++
		}
		all = append(all, [2]int{from, to})
		from = to
	}
	return all
}

// ask cuts a conversation where the model's first answer begins and ends. Of a text, no more than the first token
// has no label.
func ask(ids, labels []int32, tok *tokenizer.Tokenizer) (Question, bool) {
	from := 0
	for from < len(labels) && labels[from] == data.Ignore {
		from++
	}
	if from <= 1 || from == len(labels) {
		return Question{}, false
	}
	to := from
	for to < len(labels) && labels[to] != data.Ignore {
		to++
	}
	q := Question{Prompt: ids[:from], Answer: strings.TrimSpace(tok.Decode(ids[from:to], true))}
	// A space alone is no text to either, where the decoder drops the first.
	if last := ids[to-1 : to]; tok.Decode(last, true) == "" && tok.Decode(last, false) != "" {
		q.Stop = last
	}
	return q, q.Answer != ""
}
