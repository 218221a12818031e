package core

import "fmt"

// TakeOff gives all sites that hold a kernel of that name their plain forward back, and
// those whose work it did as well; the report says so with the reason. It returns how many
// sites the kernel was taken off. It fails once the model's graph is compiled.
func (r *Report) TakeOff(name, reason string) (int, error) {
	n := 0
	taken := map[string]bool{}
	for i := range r.Actions {
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
		a.Kernel, a.Reason, a.Measured = nil, reason, nil
		taken[a.Site.Path] = true
		n++
	}
	return n, nil
}
