package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed98097648/tune/internal/amount"
)

// fitted is a choice that was made.
type fitted struct {
	*fitting
	Limit int64  `json:"limit_bytes"`
	Fits  bool   `json:"fits"`
	given string // of --memory
	asked *fitting
}

// lines say what was chosen, and what it costs.
func (f *fitted) lines() []string {
	if f == nil {
		return nil
	}
	of := "of " + amount.Bytes(f.Limit)
	switch {
	case f.given == automatic || f.given == "":
		of += " that are free"
	default:
		of = "of --memory " + f.given
	}
	if len(f.Changes) == 0 {
		return []string{fmt.Sprintf("the run needs %s %s as it is", amount.Bytes(f.Bytes), of)}
	}
	lines := []string{fmt.Sprintf("the run would need %s %s, and %s with", amount.Bytes(f.asked.Bytes), of,
		amount.Bytes(f.Bytes))}
	flags := " "
	for _, c := range f.Changes {
		if flags += " " + c.String(); c.Cost != "" { // else it is of the next, too
			lines, flags = append(append(lines, flags), indented(c.Cost)...), " "
		}
	}
	return lines
}

// indented breaks a text into lines.
func indented(text string) (lines []string) {
	const indent, width = "      ", 72
	for word := range strings.FieldsSeq(text) {
		if n := len(lines); n > 0 && len(lines[n-1])+1+len(word) <= width {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, indent+word)
		}
	}
	return lines
}

// refusal is the error where nothing that may be changed is enough.
func (f *fitted) refusal(of *fitter) error {
	text := fmt.Sprintf("--memory %s: the run needs %s", f.given, amount.Bytes(f.asked.Bytes))
	if len(f.Changes) > 0 {
		text += fmt.Sprintf(", and at least %s, with %s", amount.Bytes(f.Bytes), flagsOf(f.Changes))
	}
	if f.Limit < limitOf(f.given) {
		text += fmt.Sprintf("; %s are free", amount.Bytes(f.Limit))
	}
	var kept []string
	for _, s := range slices.Concat([]change{{Flag: "batch"}}, fullStages, adapterStages) {
		if of.kept(s.Flag) && !slices.Contains(kept, "--"+s.Flag) {
			kept = append(kept, "--"+s.Flag)
		}
	}
	if kept != nil {
		text += "; kept as given: " + strings.Join(kept, ", ")
	}
	text += "; less is needed with a shorter --seq, a smaller --batch"
	if !of.config.LoRA.Enabled() {
		text += ", or adapters: --lora-rank 8"
	}
	return errors.New(text)
}

// limitOf is the size of a value of --memory, 0 for auto.
func limitOf(text string) int64 {
	var l memoryLimit
	_ = l.Set(text)
	return l.bytes
}

func flagsOf(all []change) string {
	var words []string
	for _, c := range all {
		words = append(words, c.String())
	}
	return strings.Join(words, " ")
}
