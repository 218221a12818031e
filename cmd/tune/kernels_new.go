package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/scaffold"
)

const kernelsNewLong = `Write a new kernel plugin into the folder NAME: a complete program for the op,
all of its passes in plain Go, with the formula in float64 that it is compared
with, the conformance tests and a benchmark. It is a module of its own, and its
tests pass as it is written: what is left to do is to make it fast.
docs/writing-a-kernel.md goes through it.

With --fast it is fast to begin with: tune's own kernel of the op, on vector
instructions, which package core/vector has for every plugin.

A plugin in Go is built with a checkout of tune: the one around the working
directory, or else the one that this program was built from, or with --source
the one that it names. One in C, which some ops can be, needs a C compiler.`

func (a *app) kernelsNewCommand() *Command {
	c := &Command{Name: "kernels new", Usage: "NAME --op OP [FLAGS]", Args: true,
		Short: "write a new kernel plugin, complete with its tests", Long: kernelsNewLong,
		Examples: "tune kernels new my_rmsnorm --op rms_norm\ntune kernels new my_rope --op rope --fast\ntune kernels " +
			"new my_swiglu --op swiglu --lang c\n"}
	var op, lang, source string
	var fast bool
	f := c.Group("Flags")
	f.StringVar(&op, "op", "", "the `OP` that the kernel computes: "+strings.Join(opNames(), ", "))
	f.BoolVar(&fast, "fast", false, "start from tune's own kernel of the op instead of plain loops")
	f.StringVar(&lang, "lang", "go", "the `LANGUAGE` to write it in: go or c")
	f.StringVar(&source, "source", "", "the checkout of tune to build with: its `FOLDER`")
	return c.finish(func(_ context.Context, args []string) error {
		if len(args) != 1 {
			return c.usagef("new takes the name of one plugin")
		}
		if err := c.misuse(scaffold.CheckName(args[0])); err != nil {
			return err
		}
		if op == "" {
			return c.usagef("--op is missing; it takes %s", strings.Join(opNames(), ", "))
		}
		if err := cmp.Or(c.oneOf("op", op, opNames()...), c.oneOf("lang", lang, "go", "c")); err != nil {
			return err
		}
		p, first := scaffold.Plugin{Name: args[0], Op: core.Op(op), Fast: fast, C: lang == "c"}, "go test"
		switch {
		case p.C && (fast || source != ""):
			return c.usagef("--fast and --source are for plugins in Go")
		case p.C && !slices.Contains(scaffold.InC(), op):
			return c.usagef("--lang c: there is no kernel of %s in C to start from, but of %s; docs/protocol.md has what "+
				"one needs", op, strings.Join(scaffold.InC(), ", "))
		case p.C:
			first = "make"
		default:
			root, err := sourceOf(source, surroundings()...)
			if err != nil {
				return err
			}
			if err := checkPlace(root); err != nil {
				return err
			}
			p.Source = root
		}
		if err := p.Write(p.Name); err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "wrote %s, a plugin for %s; its README says how to go on. First:\n\n    cd %s && %s\n",
			p.Name, op, p.Name, first)
		return nil
	})
}

// opNames returns what --op takes.
func opNames() []string {
	var names []string
	for _, op := range core.Ops() {
		names = append(names, string(op))
	}
	return names
}

// sourceOf returns the root of the checkout to build a plugin with: the named one, or the
// first that one of the folders is in.
func sourceOf(named string, near ...string) (string, error) {
	if named != "" {
		dir, err := filepath.Abs(named)
		if err != nil {
			return "", fmt.Errorf("--source: %w", err)
		}
		if root, ok := checkout(dir); ok {
			return root, nil
		}
		return "", fmt.Errorf("--source: %s is no checkout of tune: it has no go.mod that says so", named)
	}
	for _, dir := range near {
		if root, ok := checkout(dir); ok {
			return root, nil
		}
	}
	return "", errors.New("a plugin is built with a checkout of tune, and the working directory is in none; name one " +
		"with --source FOLDER")
}

// checkPlace reports a working directory where a module of its own is out of place: all
// in the folder plugins of the checkout is built as a part of it.
func checkPlace(root string) error {
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(filepath.Join(root, "plugins"), wd); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("the folder plugins of a checkout is for plugins that are part of it; write yours outside %s",
			filepath.Join(root, "plugins"))
	}
	return nil
}

// surroundings returns where a checkout is looked for: around the working directory, and
// where this program was compiled, which the compiler noted unless -trimpath kept it from it.
func surroundings() (dirs []string) {
	if wd, err := os.Getwd(); err == nil {
		dirs = append(dirs, wd)
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

// module is the path of the module that this program belongs to.
const module = "github.com/seed98097648/tune"

// checkout returns the root of this module's checkout that dir lies in, if it does.
func checkout(dir string) (string, bool) {
	for {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && moduleLine.Match(text) {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// moduleLine is in the go.mod file of this module.
var moduleLine = regexp.MustCompile(`(?m)^\s*module\s+` + regexp.QuoteMeta(module) + `\s*$`)
