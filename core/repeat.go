package core

import (
	"context"
	"fmt"
	"slices"
)

// Placement is what a site of a run had: a kernel, or its plain forward.
type Placement struct {
	Path   string `json:"path"`
	Op     Op     `json:"op"`
	Kernel string `json:"kernel,omitempty"` // its name; "" for the plain forward
}

// Placements lists what every site has after the report's application, for Repeat.
func (r *Report) Placements() []Placement {
	all := make([]Placement, len(r.all()))
	for i, a := range r.all() {
		all[i] = Placement{Path: a.Site.Path, Op: a.Site.Op}
		if a.Kernel != nil {
			all[i].Kernel = a.Kernel.Info().Name
		}
	}
	return all
}

// Repeat plans what an earlier run had, site by site, whatever a selection would come to today. It returns an
// error, and no plan, where the model has other sites, or where a kernel is missing or cannot take its site:
// another forward would round differently. Sites of an op that the option Plain names get no kernel, and
// neither do those of an op for inference where a run in training is repeated with the option Inference;
// nothing is measured.
func Repeat(ctx context.Context, m Model, r *Registry, was []Placement, opts ...Option) (*Plan, error) {
	o, sites, err := prepare(ctx, m, r, opts)
	if err != nil {
		return nil, err
	}
	if o.inference {
		was = withInference(sites, was)
	}
	if err := sameSites(sites, was); err != nil {
		return nil, err
	}
	p := &Plan{}
	c := &checker{o, map[verifyKey]error{}}
	by := map[string]string{} // the site whose kernel does the work of a site
	for i, site := range sites {
		a := Action{Site: site, Reason: "plain in that run", off: true}
		if reason, plain := o.plain[site.Op]; plain {
			a.Reason, a.off = reason, false
		} else if was[i].Kernel != "" {
			k, err := r.placeable(ctx, was[i], site, c)
			if err != nil {
				return nil, fmt.Errorf("core: %s had the kernel %s, which cannot be placed now: %w", site.Path, was[i].Kernel, err)
			}
			a.Kernel, a.Reason = k, ""
			by[site.Path] = site.Path
		} else if at := by[site.Within]; at != "" {
			by[site.Path] = at
			a.CoveredBy, a.Reason = at, ""
		}
		p.Actions = append(p.Actions, a)
	}
	return p, nil
}

// withInference adds what a run in training does not have: sites of ops that are for inference alone, which are
// plain.
func withInference(sites []Site, was []Placement) []Placement {
	var all []Placement
	for _, s := range sites {
		if len(was) > 0 && was[0].Path == s.Path && was[0].Op == s.Op || len(s.Op.Passes()) > 1 {
			n := min(1, len(was))
			all, was = append(all, was[:n]...), was[n:]
			continue
		}
		all = append(all, Placement{Path: s.Path, Op: s.Op})
	}
	return append(all, was...)
}

// placeable returns the kernel that a site had, if it can have it now.
func (r *Registry) placeable(ctx context.Context, was Placement, site Site, c *checker) (Kernel, error) {
	if site.Plain != "" {
		return nil, fmt.Errorf("%w: %s", ErrNotSupported, site.Plain)
	}
	offered, err := r.Lookup(was.Kernel)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(offered, func(k Kernel) bool { return k.Info().Op == site.Op })
	if i < 0 {
		return nil, fmt.Errorf("%w: it offers %s no more", ErrNotSupported, site.Op)
	}
	return offered[i], c.usable(ctx, offered[i], site)
}

// sameSites returns an error that names the first site that only one side has.
func sameSites(sites []Site, was []Placement) error {
	for i := range max(len(sites), len(was)) {
		switch {
		case i == len(sites):
			return fmt.Errorf("core: %w: the run had %s (%s), which this model does not have: "+
				"it is another model, or another version of this program", ErrNoSite, was[i].Path, was[i].Op)
		case i == len(was):
			return fmt.Errorf("core: %w: the model has %s (%s), which the run did not have: "+
				"it was another model, or another version of this program", ErrNoSite, sites[i].Path, sites[i].Op)
		case sites[i].Path != was[i].Path || sites[i].Op != was[i].Op:
			return fmt.Errorf("core: %w: the model has %s (%s) where the run had %s (%s): "+
				"it is another model, or another version of this program",
				ErrNoSite, sites[i].Path, sites[i].Op, was[i].Path, was[i].Op)
		}
	}
	return nil
}
