// Package builtin makes a program the host of the project's plugins without their files: it
// starts itself once for each, as a process like any other plugin's.
package builtin

import (
	"context"
	"fmt"
	"os"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/linked"
)

// Serve is the first thing that the main function of such a program does. In a process that was
// started to be one of the plugins, it is that and does not return; in any other it does nothing.
func Serve() {
	name, asked := plugin.BuiltIn()
	if !asked {
		return
	}
	for _, p := range linked.Plugins() {
		if p.Name == name {
			plugin.Serve(p.Name, p.Version, p.Kernels()...)
		}
	}
	fmt.Fprintf(os.Stderr, "this program has no plugin %q\n", name)
	os.Exit(1)
}

// Add adds the plugins to a registry, but for those whose names it has already: a plugin of a
// folder comes first. The opener is that of package transport.
func Add(ctx context.Context, reg *core.Registry, open core.Opener) error {
	var names []string
	for _, p := range linked.Plugins() {
		names = append(names, p.Name)
	}
	return reg.AddBuiltIn(ctx, names, open)
}
