package main

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer/data/corpus"
)

// addTalk adds the flags that say what becomes of conversations.
func addTalk(f *pflag.FlagSet, c *corpus.Talk) {
	f.StringVar(&c.System, "system", c.System, "a `TEXT` that tells the model how to behave, in conversations that have "+
		"no system prompt")
	addTemplateArgs(f, &c.TemplateArgs)
	f.BoolVar(&c.MaskHistory, "mask-history", c.MaskHistory, "learn the last answer of a conversation alone")
}

// addTemplateArgs adds the flag of a chat template's variables.
func addTemplateArgs(f *pflag.FlagSet, to *[]string) {
	f.StringSliceVar(to, "template-args", *to, "variables of the chat template as `NAME=VALUE`,..., such as "+
		"enable_thinking=false")
}

// addMixing adds the flags that say how several data sets become one.
func addMixing(f *pflag.FlagSet, c *corpus.Interleaving) {
	f.StringVar(&c.Mix, "mix", corpus.MixConcat, "the `WAY` in which several data sets become one: "+
		strings.Join(corpus.Mixes(), ", ")+"; the second ends with the first data set that is used up, the third with the "+
		"last, the others begin again")
	f.Var(value{"numbers", func() string {
		var all []string
		for _, p := range c.Probs {
			all = append(all, strconv.FormatFloat(p, 'g', -1, 64))
		}
		return strings.Join(all, ",")
	}, func(text string) error {
		c.Probs = nil
		for part := range strings.SplitSeq(text, ",") {
			p, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
			if text != "" && err != nil {
				return err
			}
			if text != "" {
				c.Probs = append(c.Probs, p)
			}
		}
		return nil
	}}, "mix-probs", "the `PROBABILITIES` with which examples of the data sets are drawn "+
		"when interleaved, in their order; without, they take turns")
}
