// Package builtin makes a program the host of the project's plugins without their files: it
// starts itself once more, as a process that is all of them.
package builtin

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/linked"
)

// Serve is the first thing that the main function of such a program does. In a process that was
// started to be one of the plugins, it is that and does not return; in any other it does nothing.
func Serve() {
	names, asked := plugin.BuiltIn()
	if !asked {
		return
	}
	all := linked.Plugins()
	var offers []plugin.Offer
	for _, name := range names {
		i := slices.IndexFunc(all, func(p linked.Plugin) bool { return p.Name == name })
		if i < 0 {
			fmt.Fprintf(os.Stderr, "this program has no plugin %q\n", name)
			os.Exit(1)
		}
		offers = append(offers, plugin.Offer{Name: name, Version: all[i].Version, Kernels: all[i].Kernels()})
	}
	plugin.ServeBuiltIn(offers...)
}

// Add adds the plugins to a registry, but for those whose names it has already: a plugin of a
// folder comes first. The opener is transport.OpenBuiltIn, or the method of that name.
func Add(ctx context.Context, reg *core.Registry, open core.BuiltInOpener) error {
	var names []string
	for _, p := range linked.Plugins() {
		names = append(names, p.Name)
	}
	return reg.AddBuiltIn(ctx, names, open)
}
