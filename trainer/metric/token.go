package metric

import (
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// Tokens returns the predictions of TokenAccuracy for a batch of a set, one for each part of its rows that has
// something to predict, in their order: next has the likeliest token after each.
func Tokens(set string, b data.Batch, next []int32, tok *tokenizer.Tokenizer) (all []Prediction) {
	for row := range b.B {
		lo, hi := row*b.S, (row+1)*b.S
		r := data.Row{IDs: b.IDs[lo:hi], Labels: b.Labels[lo:hi], Segments: b.Segments[lo:hi]}
		for _, p := range parts(r) {
			if one, ok := tokens(r, p[0], p[1], next[lo:hi], tok); ok {
				one.Data = set
				all = append(all, one)
			}
		}
	}
	return all
}

func tokens(r data.Row, from, to int, next []int32, tok *tokenizer.Tokenizer) (p Prediction, ok bool) {
	first, right := to, 0
	var want, got []int32
	for t := from + 1; t < to; t++ {
		if r.Labels[t] == data.Ignore {
			continue
		}
		first = min(first, t)
		want, got = append(want, r.IDs[t]), append(got, next[t-1])
		if next[t-1] == r.IDs[t] {
			right++
		}
	}
	if p.Tokens = len(want); p.Tokens == 0 {
		return p, false
	}
	p.Prompt = tok.Decode(r.IDs[from:first], false)
	p.Expected, p.Generated = tok.Decode(want, true), tok.Decode(got, true)
	p.Score = float64(right) / float64(p.Tokens)
	return p, true
}
