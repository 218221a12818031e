package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer/models"
)

// addSelection adds the flags that say which parameters are trained.
func addSelection(f *pflag.FlagSet, s *models.Selection) {
	f.StringSliceVar(&s.Modules, "train-modules", s.Modules, "`NAMES` of modules that are trained as they are, such as "+
		"embed_tokens,lm_head,norm, beside adapters or --train-layers; alone, only they are trained")
	f.IntVar(&s.Layers, "train-layers", s.Layers, "train so many of the last `LAYERS` alone, or if negative of the "+
		"first; 0 for all, with all else")
	f.StringSliceVar(&s.Freeze, "freeze", s.Freeze, "`NAMES` of modules that are not trained, such as embed_tokens or "+
		"layers.[0-3].mlp")
}

// mostLayers is the largest number of a layer that a range may have.
const mostLayers = 1 << 12

// parseNumbers reads a list of numbers and ranges, such as 0,4-7.
func parseNumbers(text string) (all []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && isRange {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to < from || to > mostLayers {
			return nil, fmt.Errorf("%q is no number, or range, of layers", part)
		}
		for i := from; i <= to; i++ {
			all = append(all, i)
		}
	}
	return all, nil
}

// numberList writes numbers as parseNumbers reads them.
func numberList(all []int) string {
	var words []string
	for _, n := range all {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}
