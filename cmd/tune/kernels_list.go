package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/progress"
)

const kernelsListLong = `List the plugins that are found and the kernels that they offer. A file that
cannot be used is listed with its reason.`

func (a *app) kernelsListCommand() *Command {
	c := &Command{Name: "kernels list", Usage: "[FLAGS]",
		Short: "list the plugins found, the broken ones with their reasons", Long: kernelsListLong,
		Examples: "tune kernels list\ntune kernels list --plugin-dir ./my-plugins --json\n"}
	var p pluginFlags
	var asJSON bool
	addListing(c.Group("Flags"), &p, &asJSON)
	return c.finish(func(ctx context.Context, _ []string) (err error) {
		reg, err := p.scan(ctx, a, transport.Options{})
		if err != nil {
			return err
		}
		defer closing(reg, &err)
		l := newListing(reg, p.dir)
		if asJSON {
			return a.writeJSON(l)
		}
		l.print(a)
		return nil
	})
}

func addListing(f *pflag.FlagSet, p *pluginFlags, asJSON *bool) {
	p.add(f)
	f.BoolVar(asJSON, "json", false, "write JSON")
}

// listing is what "kernels list --json" writes.
type listing struct {
	Kernels  []kernelLine `json:"kernels"`
	Broken   []brokenFile `json:"broken"`
	Searched []string     `json:"searched"`
}

// kernelLine is one kernel of a usable plugin.
type kernelLine struct {
	core.Info
	Path     string `json:"path"`
	Checksum string `json:"checksum"`
}

// brokenFile is a file that cannot be used, and why.
type brokenFile struct {
	Path   string `json:"path"`
	Name   string `json:"name,omitempty"` // if the plugin got as far as saying it
	Reason string `json:"reason"`
}

func newListing(reg *core.Registry, dir string) listing {
	l := listing{Kernels: []kernelLine{}, Broken: []brokenFile{}, Searched: transport.SearchPath(dir)}
	for _, f := range reg.Listing() {
		if f.Err != nil {
			l.Broken = append(l.Broken, brokenFile{f.Path, f.Manifest.Name, f.Err.Error()})
			continue
		}
		for _, k := range f.Manifest.Kernels {
			l.Kernels = append(l.Kernels, kernelLine{k, f.Path, f.Manifest.Checksum})
		}
	}
	return l
}

func (l listing) print(a *app) {
	if len(l.Kernels) == 0 {
		fmt.Fprintln(a.stdout, "no kernels found; searched:")
		for _, dir := range l.Searched {
			fmt.Fprintf(a.stdout, "  %s\n", dir)
		}
		if len(l.Broken) == 0 {
			fmt.Fprintln(a.stdout, "Leave out --plugin-dir for the kernels that are built in.")
		}
	} else {
		l.printKernels(a)
	}
	p := paletteOf(a.stdout)
	for i, g := range alike(l.Broken) {
		if i == 0 {
			fmt.Fprintln(a.stdout, "\n"+p.bad("cannot be used:"))
		}
		b := g[0]
		reason := "    " + b.Reason
		if progress.IsTerminal(a.stdout) { // elsewhere, it is for programs too
			reason = progress.Wrapped(reason, "    ")
		}
		fmt.Fprintf(a.stdout, "  %s%s\n%s\n", short(b.Path), andMore(g), reason)
	}
}

// alike puts files together of which the same is to be said, but for their own path: a folder may
// have hundreds of links to one.
func alike(files []brokenFile) (groups [][]brokenFile) {
	at := map[string]int{}
	for _, b := range files {
		what := b.Name + "\n" + strings.ReplaceAll(b.Reason, b.Path, "")
		i, known := at[what]
		if !known {
			i = len(groups)
			at[what], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], b)
	}
	return groups
}

// andMore counts the files of a group after the first.
func andMore(group []brokenFile) string {
	switch n := len(group) - 1; n {
	case 0:
		return ""
	case 1:
		return " and " + filepath.Base(group[1].Path)
	default:
		return fmt.Sprintf(" and %d more, such as %s", n, filepath.Base(group[1].Path))
	}
}

// printKernels prints the kernels of each plugin, by folder. A plugin is known by its
// name, or its file where that has another.
func (l listing) printKernels(a *app) {
	width := 0
	for _, k := range l.Kernels {
		width = max(width, len(k.Op))
	}
	p := paletteOf(a.stdout)
	folder, plugin := "", ""
	for _, k := range l.Kernels {
		if dir := folderOf(k.Path); dir != folder {
			folder = dir
			fmt.Fprintln(a.stdout, p.bold(short(dir)))
		}
		if k.Path != plugin {
			plugin = k.Path
			name := k.Name
			if file := strings.TrimSuffix(filepath.Base(strings.TrimPrefix(k.Path, core.BuiltIn)), ".exe"); file != name {
				name += " (" + file + ")"
			}
			fmt.Fprintf(a.stdout, "  %s %s\n", p.good(name), k.Version)
		}
		passes := "forward only"
		if k.Backward {
			passes = "forward, backward"
		}
		fmt.Fprintf(a.stdout, "    %-*s  %-17s  %s\n", width, k.Op, passes, names(k.DTypes))
	}
}

// folderOf is where a plugin was found, in words if it is no folder.
func folderOf(path string) string {
	if strings.HasPrefix(path, core.BuiltIn) {
		return "built in"
	}
	return filepath.Dir(path)
}

func names(dtypes []core.DType) string {
	var s []string
	for _, d := range dtypes {
		s = append(s, d.String())
	}
	return strings.Join(s, ",")
}

// short returns the path relative to the working directory, if that is shorter.
func short(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && len(rel) < len(path) {
		return rel
	}
	return path
}

// writeJSON writes one value to the standard output.
func (a *app) writeJSON(v any) error { return writeJSON(a.stdout, v) }

// writeJSON writes one value, indented. A number that is not finite is null.
func writeJSON(w io.Writer, v any) error { return plainjson.Encode(w, v, "  ") }
