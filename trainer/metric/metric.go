// Package metric scores what a model answers against the answers of held-out data: it finds what the data asks,
// lets the model write, and compares.
package metric

import (
	"io"
	"strings"

	"github.com/seed98097648/tune/internal/plainjson"
)

// Name is what a score measures. Every score is between 0 and 1, and higher is better.
type Name string

// The metrics.
const (
	// ExactMatch is the share of answers that are the expected one, white space around them aside.
	ExactMatch Name = "exact_match"
	// TokenAccuracy is the share of the tokens to predict that are the likeliest one after the right tokens before them.
	TokenAccuracy Name = "token_accuracy"
	// RougeL is the mean ROUGE-L of answers; see Rouge.
	RougeL Name = "rouge_l"
)

// Names returns all metrics.
func Names() []string { return []string{string(ExactMatch), string(TokenAccuracy), string(RougeL)} }

// Writes reports whether the model has to write answers for it; the likeliest token at each place does otherwise.
func (n Name) Writes() bool { return n != TokenAccuracy }

// Prediction is what a model made of an example.
type Prediction struct {
	Data      string  `json:"data,omitempty"` // the evaluation set, where there are several
	Prompt    string  `json:"prompt"`
	Expected  string  `json:"expected"`
	Generated string  `json:"generated"` // for TokenAccuracy, the likeliest token at each place
	Score     float64 `json:"score"`
	Tokens    int     `json:"tokens,omitempty"` // of TokenAccuracy: what Score is the share of
}

// Judge gives a prediction that was written its score.
func (n Name) Judge(p *Prediction) {
	switch {
	case n == RougeL:
		p.Score = Rouge(p.Expected, p.Generated)
	case strings.TrimSpace(p.Expected) == strings.TrimSpace(p.Generated):
		p.Score = 1
	}
}

// Mean returns the score of all predictions, 0 of none: each counts the same, and for TokenAccuracy each token.
func (n Name) Mean(all []Prediction) float64 {
	sum, weight := 0.0, 0.0
	for _, p := range all {
		w := 1.0
		if n == TokenAccuracy {
			w = float64(p.Tokens)
		}
		sum, weight = sum+w*p.Score, weight+w
	}
	if weight == 0 {
		return 0
	}
	return sum / weight
}

// WriteLines writes predictions as JSON, one a line.
func WriteLines(w io.Writer, all []Prediction) error {
	for _, p := range all {
		if err := plainjson.Encode(w, p, ""); err != nil {
			return err
		}
	}
	return nil
}
