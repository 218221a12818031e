// Package scaffold writes new kernel plugins: a folder with a complete program for an op,
// its tests and its benchmark, as a module of its own, for an author to go on from.
//
// Sources are compiled, vetted and tested where they are, and copied under another name:
// plain loops are in the op's folder of package ops, fast kernels are those of the project's
// own plugins, and kernels in C are the examples'. What does not depend on the op is in the
// folders plugin and c.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/examples"
	"github.com/seed98097648/tune/internal/ops"
	"github.com/seed98097648/tune/internal/os/patient"
	"github.com/seed98097648/tune/plugins"
)

// module is the path of this module, which a plugin imports.
const module = "github.com/seed98097648/tune"

// What Write replaces in sources in Go: the clause, the beginning of the package's comment,
// and what stands for the plugin's name.
var (
	clause  = regexp.MustCompile(`(?m)^package \w+$`)
	comment = regexp.MustCompile(`(?m)^// Package \w+ is (a kernel plugin of tune|the kernel of the plugin npu_\w+)`)
	named   = regexp.MustCompile(`\b(my_kernel|npu_fused_\w+)\b`)
)

//go:embed plugin c
var templates embed.FS

// Plugin is a plugin to write.
type Plugin struct {
	Name   string  // of the plugin, its module and its executable; see CheckName
	Op     core.Op // one of core.Ops
	Fast   bool    // start from the project's own kernel instead of plain loops
	C      bool    // in C instead of Go, which not every op can be
	Source string  // the root of a checkout of this module, which a plugin in Go is built with
}

// Kernel is the expression that makes the kernel of a plugin in Go.
func (p Plugin) Kernel() string {
	if p.Fast {
		return ops.Of(p.Op).Fast.Kernel
	}
	return "kernel{}"
}

// Backward reports whether the op has a backward pass, or is for inference alone.
func (p Plugin) Backward() bool { return slices.Contains(p.Op.Passes(), core.Backward) }

// Module is the path of the module that a plugin in Go is built with.
func (Plugin) Module() string { return module }

// nameForm is what a name looks like.
var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// CheckName reports a name that a plugin cannot have.
func CheckName(name string) error {
	switch {
	case !nameForm.MatchString(name):
		return fmt.Errorf("%q is no name for a plugin: it takes lower-case letters, digits and _, a letter first, such as my_rmsnorm", name)
	case token.IsKeyword(name) || core.CheckName(name) != nil:
		return fmt.Errorf("%q is no name for a plugin, because it is a word of Go or of selections; my_%s would do", name, name)
	}
	return nil
}

// Write writes the plugin into dir, which must be empty or not exist; it never replaces
// a file. The folder appears whole or not at all.
func (p Plugin) Write(dir string) error {
	files, err := p.Files()
	if err != nil {
		return err
	}
	if err := vacant(dir); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-*")
	if err != nil {
		return fmt.Errorf("scaffold: %w", err)
	}
	defer os.RemoveAll(temp)
	whole := filepath.Join(temp, p.Name) // temp itself is only for its owner
	if err := os.Mkdir(whole, 0o755); err != nil {
		return fmt.Errorf("scaffold: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(whole, name), text, 0o644); err != nil {
			return fmt.Errorf("scaffold: %w", err)
		}
	}
	if err := patient.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return fmt.Errorf("scaffold: %w", err)
	}
	if err := patient.Rename(whole, dir); err != nil {
		return fmt.Errorf("scaffold: %w", err)
	}
	return nil
}

// vacant reports what stands where the folder is to be.
func vacant(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("scaffold: %w", err)
	case !info.IsDir():
		return fmt.Errorf("scaffold: %s exists and is not a folder; choose another name", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("scaffold: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("scaffold: the folder %s exists and is not empty; choose another name, or move it away", dir)
	}
	return nil
}

// Files returns the plugin's files by name.
func (p Plugin) Files() (map[string][]byte, error) {
	if err := CheckName(p.Name); err != nil {
		return nil, err
	}
	if !slices.Contains(core.Ops(), p.Op) {
		return nil, fmt.Errorf("scaffold: unknown op %q; known: %v", p.Op, core.Ops())
	}
	parts := []func(map[string][]byte) error{p.kernel, p.surroundings, p.goMod}
	if p.C {
		parts = []func(map[string][]byte) error{p.cKernel, p.surroundings}
	}
	files := map[string][]byte{}
	for _, add := range parts {
		if err := add(files); err != nil {
			return nil, fmt.Errorf("scaffold: %w", err)
		}
	}
	return files, nil
}

// kernel adds the sources of the op.
func (p Plugin) kernel(files map[string][]byte) error {
	plain := string(p.Op) + "/scaffold"
	if !p.Fast {
		return p.copyGo(files, ops.Scaffolds, plain, func(string) bool { return true })
	}
	own := ops.Of(p.Op).Fast
	if own.Folder == "" {
		return fmt.Errorf("there is no fast kernel of %s to start from; there is one of plain loops", p.Op)
	}
	if err := p.copyGo(files, plugins.Sources, own.Folder, func(name string) bool { return !test(name) }); err != nil {
		return err
	}
	// Tests of the project's kernels need more than a plugin elsewhere has; those of the plain
	// loops say nothing about how a kernel computes, but which storage it refuses.
	return p.copyGo(files, ops.Scaffolds, plain, func(name string) bool { return test(name) && name != "kernel_test.go" })
}

func test(name string) bool { return strings.HasSuffix(name, "_test.go") }

// copyGo adds the Go files of a folder that are wanted, as those of a program.
func (p Plugin) copyGo(files map[string][]byte, from embed.FS, folder string, wanted func(name string) bool) error {
	entries, err := from.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !wanted(e.Name()) {
			continue
		}
		text, err := from.ReadFile(path.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		text = clause.ReplaceAll(text, []byte("package main"))
		text = comment.ReplaceAll(text, []byte("// Command "+p.Name+" is a kernel plugin of tune"))
		text = named.ReplaceAll(text, []byte(p.Name))
		text = bytes.ReplaceAll(text, []byte("kernel{}"), []byte(p.Kernel()))
		if files[e.Name()], err = format.Source(text); err != nil { // a name has another width
			return fmt.Errorf("%s/%s: %w", folder, e.Name(), err)
		}
	}
	return nil
}

// cKernel adds the sources of the op in C.
func (p Plugin) cKernel(files map[string][]byte) error {
	own := string(p.Op) + ".c"
	for name, from := range map[string]string{"kernel.c": own, "tune_plugin.c": "tune_plugin.c", "tune_plugin.h": "tune_plugin.h",
		productsInC: productsInC} {
		text, err := examples.C.ReadFile("c_kernel/" + from)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no kernel in C of %s to start from, but of %s; docs/protocol.md has what one needs", p.Op, strings.Join(InC(), ", "))
		}
		if err != nil {
			return err
		}
		files[name] = bytes.ReplaceAll(text, []byte("c_"+string(p.Op)), []byte(p.Name))
	}
	if !bytes.Contains(files["kernel.c"], []byte(`#include "`+productsInC+`"`)) {
		delete(files, productsInC)
	}
	return nil
}

// productsInC is the file with products of matrices, which some kernels in C need.
const productsInC = "tune_products.h"

// InC returns the ops that there is a kernel in C of.
func InC() []string {
	var ops []string
	for _, op := range core.Ops() {
		if _, err := fs.Stat(examples.C, "c_kernel/"+string(op)+".c"); err == nil {
			ops = append(ops, string(op))
		}
	}
	return ops
}

// surroundings adds what is the same for every op.
func (p Plugin) surroundings(files map[string][]byte) error {
	folder, names := "plugin", []string{"main.go", "README.md"}
	switch {
	case p.C:
		folder, names = "c", []string{"Makefile", "README.md"}
	case p.Fast:
		names = append(names, "kernel_test.go")
	}
	parsed, err := template.ParseFS(templates, folder+"/*.tmpl")
	if err != nil {
		return err
	}
	var loops []string // the files of the passes, which some ops have more of than others
	for name := range files {
		if strings.HasSuffix(name, ".go") && !test(name) && name != "kernel.go" {
			loops = append(loops, "`"+name+"`")
		}
	}
	slices.Sort(loops)
	of := struct {
		Plugin
		Loops string
	}{p, strings.Join(loops, ", ")}
	for _, name := range names {
		var b bytes.Buffer
		if err := parsed.ExecuteTemplate(&b, name+".tmpl", of); err != nil {
			return err
		}
		files[name] = b.Bytes()
	}
	files[".gitignore"], err = templates.ReadFile("plugin/gitignore")
	return err
}

// moduleLine is the line of a go.mod that names the module.
var moduleLine = regexp.MustCompile(`(?m)^module .*$`)

// home is before the name in the path of a plugin's module, so that a plugin may be
// called like a package of the standard library. Authors who publish it have their own.
const home = "example.com/"

// goMod adds go.mod and go.sum. They are the checkout's, so that everything that tune is
// built with has a version, and the modules are on the machine already. Where the checkout
// is, one line says, which is another's to change.
func (p Plugin) goMod(files map[string][]byte) error {
	mod, err := os.ReadFile(filepath.Join(p.Source, "go.mod"))
	if err != nil {
		return err
	}
	if !moduleLine.Match(mod) {
		return fmt.Errorf("%s names no module", filepath.Join(p.Source, "go.mod"))
	}
	mod = moduleLine.ReplaceAllLiteral(mod, []byte("module "+home+p.Name))
	mod = fmt.Appendf(mod, `
// Tune itself is taken from a checkout. Whoever has it elsewhere changes the folder:
//
//	go mod edit -replace %[1]s=FOLDER
//
// or takes a published version instead:
//
//	go mod edit -dropreplace %[1]s
//	go get %[1]s@VERSION
require %[1]s v0.0.0

replace %[1]s => %[2]s
`, module, strconv.Quote(filepath.ToSlash(p.Source)))
	files["go.mod"] = mod
	files["go.sum"], err = os.ReadFile(filepath.Join(p.Source, "go.sum"))
	return err
}
