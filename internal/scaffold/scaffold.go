// Package scaffold writes new kernel plugins: for each op a folder with a complete
// program, its tests and its benchmark, as a module of its own, for an author to make
// fast.
//
// The sources are packages below this one, a folder for each op, compiled, vetted and
// tested like any other. Write copies them: package kernel becomes the command of the
// plugin's name, and so does the name my_kernel. What does not depend on the op is in the
// folder plugin.
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
	"text/template"

	"github.com/seed98097648/tune/core"
)

// module is the path of this module, which a plugin imports.
const module = "github.com/seed98097648/tune"

// What Write replaces in the sources of an op.
const (
	placeholder = "my_kernel"
	comment     = "// Package kernel is"
)

var clause = regexp.MustCompile(`(?m)^package kernel$`)

//go:embed */*.go plugin
var sources embed.FS

// Plugin is a plugin to write.
type Plugin struct {
	Name   string  // of the plugin, its module and its executable; see CheckName
	Op     core.Op // one of core.Ops
	Source string  // the root of a checkout of this module, which the plugin is built with
}

// nameForm is what a name looks like.
var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// CheckName reports a name that a plugin cannot have.
func CheckName(name string) error {
	switch {
	case !nameForm.MatchString(name):
		return fmt.Errorf("%q is no name for a plugin: it takes lower-case letters, digits and _, a letter first, such as my_rmsnorm", name)
	case token.IsKeyword(name) || core.CheckName(name) != nil:
		return fmt.Errorf("%q is no name for a plugin, because it is a word of Go or of --kernels; my_%s would do", name, name)
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
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return fmt.Errorf("scaffold: %w", err)
	}
	if err := os.Rename(whole, dir); err != nil {
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
	files := map[string][]byte{}
	for _, add := range []func(map[string][]byte) error{p.kernel, p.surroundings, p.goMod} {
		if err := add(files); err != nil {
			return nil, fmt.Errorf("scaffold: %w", err)
		}
	}
	return files, nil
}

// kernel adds the sources of the op.
func (p Plugin) kernel(files map[string][]byte) error {
	names, err := fs.Glob(sources, path.Join(string(p.Op), "*.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := sources.ReadFile(name)
		if err != nil {
			return err
		}
		text = clause.ReplaceAll(text, []byte("package main"))
		text = bytes.Replace(text, []byte(comment), []byte("// Command "+p.Name+" is"), 1)
		text = bytes.ReplaceAll(text, []byte(placeholder), []byte(p.Name))
		if files[path.Base(name)], err = format.Source(text); err != nil { // a name has another width
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// surroundings adds what is the same for every op.
func (p Plugin) surroundings(files map[string][]byte) error {
	templates, err := template.ParseFS(sources, "plugin/*.tmpl")
	if err != nil {
		return err
	}
	values := struct {
		Plugin
		Module string
	}{p, module}
	for _, name := range []string{"main.go", "README.md"} {
		var b bytes.Buffer
		if err := templates.ExecuteTemplate(&b, name+".tmpl", values); err != nil {
			return err
		}
		files[name] = b.Bytes()
	}
	files[".gitignore"], err = sources.ReadFile("plugin/gitignore")
	return err
}

// moduleLine is the line of a go.mod that names the module.
var moduleLine = regexp.MustCompile(`(?m)^module .*$`)

// home is before the name in the path of a plugin's module, so that a plugin may be
// called like a package of the standard library. Authors who publish it have their own.
const home = "example.com/"

// goMod adds go.mod and go.sum. They are the checkout's, so that everything that tune is
// built with has a version, and the modules are on the machine already.
func (p Plugin) goMod(files map[string][]byte) error {
	mod, err := os.ReadFile(filepath.Join(p.Source, "go.mod"))
	if err != nil {
		return err
	}
	if !moduleLine.Match(mod) {
		return fmt.Errorf("%s names no module", filepath.Join(p.Source, "go.mod"))
	}
	mod = moduleLine.ReplaceAllLiteral(mod, []byte("module "+home+p.Name))
	mod = fmt.Appendf(mod, "\n// The checkout that this plugin is built with.\nrequire %s v0.0.0\n\nreplace %s => %s\n",
		module, module, strconv.Quote(filepath.ToSlash(p.Source)))
	files["go.mod"] = mod
	files["go.sum"], err = os.ReadFile(filepath.Join(p.Source, "go.sum"))
	return err
}
