// Package demo is what tune trains when it is given neither a model nor data: a small
// mixture-of-experts model that takes the wug test.
//
// In that test (Jean Berko, "The Child's Learning of English Morphology", Word 14, 1958)
// children see a made-up animal, hear "this is a wug; now there are two", and say "wugs".
// They cannot have heard the word, so they must have learned the rule. Here the model
// starts from random weights, reads made-up words with their plurals and past tenses,
//
//	one trock, two trocks        one wedy, two wedies        one vess, two vesses
//	to trock, it trocked         to wedy, it wedied          to zib, it zibbed
//
// and is asked for those of words that are not in its training data. Nothing is
// downloaded: the corpus is generated, always the same, and the model and its tokenizer
// (one token a letter) are the JSON files in the folder model.
package demo
