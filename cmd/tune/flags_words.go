package main

import (
	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer"
)

// addWords adds the flags of new tokens.
func addWords(f *pflag.FlagSet, w *trainer.Words) {
	f.StringSliceVar(&w.Tokens, "add-tokens", w.Tokens, "`TOKENS` to add to the tokenizer, whose rows of the "+
		"embedding and the head begin as the mean of all others; with adapters, both are trained as they are")
	f.StringSliceVar(&w.Special, "add-special-tokens", w.Special, "`TOKENS` to add likewise that carry no text")
	f.BoolVar(&w.Marks, "add-template-tokens", w.Marks, "add the special tokens that --template writes and the "+
		"tokenizer lacks")
	f.IntVar(&w.Pad, "pad-vocab", w.Pad, "the `MULTIPLE` that the rows of a model come to which new tokens make "+
		"larger, such as 64; 0 for just enough")
}
