package core

import (
	"fmt"
	"slices"
	"strings"
)

// Selection says which kernels a plan may place, as --kernels does.
type Selection struct {
	Auto  bool     // every kernel that is worth it on this machine; see Measured
	All   bool     // every kernel that some site supports
	Names []string // these, and each of them on at least one site
	Not   []string // never these
	From  string   // those of an earlier run, alone: where it was kept; see Repeat
}

// none reports whether the selection is "none".
func (s Selection) none() bool { return !s.Auto && !s.All && s.Names == nil && s.From == "" }

// from begins the selection of an earlier run's kernels.
const from = "from:"

// ParseSelection reads "auto", "all", "none", names, or a list such as
// "auto,-npu_fused_rope", separated by commas; or "from:" and where a run was kept.
func ParseSelection(s string) (Selection, error) {
	var sel Selection
	var none bool
	if run, ok := strings.CutPrefix(strings.TrimSpace(s), from); ok {
		if run == "" {
			return sel, fmt.Errorf("core: kernel selection %q names no run: write from:DIR with the output folder of one", s)
		}
		return Selection{From: run}, nil
	}
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		switch {
		case word == "":
			return sel, fmt.Errorf("core: kernel selection %q has an empty name; use none for no kernels", s)
		case word == "auto":
			sel.Auto = true
		case word == "all":
			sel.All = true
		case word == "none":
			none = true
		case strings.HasPrefix(word, from):
			return sel, fmt.Errorf("core: kernel selection %q: %s stands alone", s, word)
		case strings.HasPrefix(word, "-"):
			name := strings.TrimSpace(strings.TrimPrefix(word, "-"))
			if name == "" {
				return sel, fmt.Errorf("core: kernel selection %q has an empty name after a dash", s)
			}
			sel.Not = append(sel.Not, name)
		case !slices.Contains(sel.Names, word):
			sel.Names = append(sel.Names, word)
		}
	}
	switch {
	case none && (sel.Auto || sel.All || sel.Names != nil || sel.Not != nil):
		return sel, fmt.Errorf("core: kernel selection %q: none stands alone", s)
	case sel.Auto && sel.All:
		return sel, fmt.Errorf("core: kernel selection %q: auto and all exclude each other", s)
	case sel.Not != nil && !sel.Auto && !sel.All:
		return sel, fmt.Errorf("core: kernel selection %q: exclusions need auto or all, as in auto,-%s", s, sel.Not[0])
	}
	for _, name := range sel.Names {
		if slices.Contains(sel.Not, name) {
			return sel, fmt.Errorf("core: kernel selection %q both names and excludes %s", s, name)
		}
	}
	return sel, nil
}
