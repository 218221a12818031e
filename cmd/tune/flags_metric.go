package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer/metric"
)

// addMetric adds the flag that names a score, with what is scored.
func addMetric(f *pflag.FlagSet, name *metric.Name, of string) {
	f.StringVar((*string)(name), "metric", string(*name), "score the answers of "+of+", too: `NAME` is one of "+
		strings.Join(metric.Names(), ", ")+"; for all but token_accuracy, which looks at the likeliest token at each "+
		"place, the model writes the first answer of each conversation")
}

// addNewTokens adds the flag of an answer's length.
func addNewTokens(f *pflag.FlagSet, most *int) {
	f.IntVar(most, "max-new-tokens", *most, "the most `TOKENS` of an answer that is written")
}
