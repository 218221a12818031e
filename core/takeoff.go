package core

import (
	"fmt"
	"slices"
)

// TakeOff restores the plain forward at every site that holds a kernel of that name, and with
// it at the sites that it covered; the report gives the reason there, and a later Restore leaves
// these sites alone. It returns how many sites the kernel was taken off. It fails once the model's graph is compiled.
func (r *Report) TakeOff(name, reason string) (int, error) {
	n := 0
	taken := map[string]bool{}
	for i := range r.all() {
		a := &r.Actions[i]
		if a.CoveredBy != "" && taken[a.CoveredBy] {
			a.CoveredBy, a.Reason = "", reason
		}
		if a.Kernel == nil || a.Kernel.Info().Name != name {
			continue
		}
		if err := a.Site.Hook.Swap(nil); err != nil {
			return n, fmt.Errorf("core: take %s off %s: %w", name, a.Site.Path, err)
		}
		r.swapped = slices.DeleteFunc(r.swapped, func(s Site) bool { return s.Path == a.Site.Path })
		a.Kernel, a.Reason, a.Measured = nil, reason, nil
		taken[a.Site.Path] = true
		n++
	}
	return n, nil
}
