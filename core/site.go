package core

import (
	"errors"
	"fmt"
	"reflect"
)

// Site is one place in a model that uses an op.
type Site struct {
	Path  string // such as "layers.3.mlp"
	Op    Op
	Facts Facts
	Hook  Hook

	// Plain says why no kernel can take the site, such as weights in a form that no op
	// has; empty if one may. A plan leaves the site alone and gives this as the reason.
	Plain string
	// Within is the path of an earlier site, of a larger op that this one is a part of, or
	// "". A kernel there does the work of this site too, which then needs none; and so does one at a site that the
	// earlier one is within.
	Within string
}

// Hook swaps the forward of one site. The module keeps its parameters whatever the
// hook does: the same tensors under the same names.
type Hook interface {
	// Kernel returns the kernel in place, nil for the plain forward.
	Kernel() Kernel
	// Swap puts a kernel in place, nil to restore the plain forward. It returns an
	// error that wraps ErrCompiled when the graph exists already.
	Swap(k Kernel) error
}

// Model is all that the patcher knows of a model.
type Model interface {
	// Sites lists the places where a kernel could go, in the order of the forward pass.
	Sites() []Site
}

// checkSites reports sites without a path or a hook, and those that share one: a report
// could not tell them apart, and a kernel at one would be at the other.
func checkSites(sites []Site) error {
	var errs []error
	paths, hooks := map[string]bool{}, map[Hook]string{}
	for i, s := range sites {
		if s.Path == "" {
			errs = append(errs, fmt.Errorf("core: site %d (%s) has no path: give it the name of its module", i, s.Op))
		} else if paths[s.Path] {
			errs = append(errs, fmt.Errorf("core: the model lists the site %s twice: give each a path of its own", s.Path))
		}
		paths[s.Path] = true
		if s.Hook == nil {
			errs = append(errs, fmt.Errorf("core: site %s has no hook: set Site.Hook to what swaps its forward", s.Path))
		} else if reflect.TypeOf(s.Hook).Kind() == reflect.Pointer {
			if other, taken := hooks[s.Hook]; taken {
				errs = append(errs, fmt.Errorf("core: the sites %s and %s share a hook: give each its own", other, s.Path))
			}
			hooks[s.Hook] = s.Path
		}
	}
	return errors.Join(errs...)
}
