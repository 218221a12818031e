package data

import "slices"

// Encoder is the half of a tokenizer that this package needs.
type Encoder interface {
	// Encode returns the token ids of text. With addSpecial it adds what the model
	// expects around a text, such as a token that marks its beginning.
	Encode(text string, addSpecial bool) []int32
}

// None stands for a token that a vocabulary does not have.
const None int32 = -1

// Tokenize encodes each document with its special tokens and appends eos, the token
// that ends a text, where the encoder has not done so. With eos None it appends
// nothing.
func Tokenize(enc Encoder, docs []Document, eos int32) [][]int32 {
	all := make([][]int32, len(docs))
	for i, d := range docs {
		ids := enc.Encode(d.Text, true)
		if eos != None && (len(ids) == 0 || ids[len(ids)-1] != eos) {
			ids = append(slices.Clip(ids), eos) // the encoder may share its memory
		}
		all[i] = ids
	}
	return all
}
