// Package chat turns conversations into the text that a model was trained on: it renders
// a model's own chat template, as transformers does, and says which of the text are the
// assistant's own words.
package chat
