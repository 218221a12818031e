package nn

import (
	"path"
	"strings"
)

// Named returns how many of the parameter's tensors a pattern names: one whose name, or some
// elements of its name that follow each other, the pattern matches as path.Match has it. So
// embed_tokens, layers.0, layers.[0-3].mlp and *.bias are patterns. A head that is the embedding
// is called by both names.
func (p *Param) Named(pattern string) (n int) {
	if p.Tied != "" && matches(pattern, p.Tied) {
		return len(p.Entries)
	}
	for _, e := range p.Entries {
		if matches(pattern, e.Name) {
			n++
		}
	}
	return n
}

func matches(pattern, name string) bool {
	parts := strings.Split(name, ".")
	for from := range parts {
		for to := from + 1; to <= len(parts); to++ {
			if ok, _ := path.Match(pattern, strings.Join(parts[from:to], ".")); ok {
				return true
			}
		}
	}
	return false
}
