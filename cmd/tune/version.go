package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/seed98097648/tune/core/transport"
)

func (a *app) versionCommand() *Command {
	c := &Command{Name: "version", Short: "print the version", Long: "Print the version of the program, of Go, and of " +
		"the protocol that plugins speak."}
	return c.finish(func(_ context.Context, _ []string) error {
		info, ok := debug.ReadBuildInfo()
		if !ok {
			info = &debug.BuildInfo{}
		}
		fmt.Fprintf(a.stdout, "tune %s\n%s %s/%s\nplugin protocol %d\n", version(info), runtime.Version(), runtime.GOOS,
			runtime.GOARCH, transport.ProtocolVersion)
		return nil
	})
}

// version returns the module's version and, where the build recorded it, the revision.
func version(info *debug.BuildInfo) string {
	v := cmp.Or(info.Main.Version, "(devel)")
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if revision := settings["vcs.revision"]; revision != "" {
		v += " " + revision[:min(12, len(revision))]
		if settings["vcs.modified"] == "true" {
			v += " with local changes"
		}
		v += " of " + cmp.Or(settings["vcs.time"], "unknown time")
	}
	return v
}
