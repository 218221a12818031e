package core

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
	// "". A kernel there does the work of this site too, which then needs none.
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
