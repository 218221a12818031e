//go:build ignore

// Command generate makes of the folders beside it what Go does not find by itself: the list of
// this package, and the contracts in package core, a copy of the file contract.go of each.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// What it writes.
const (
	contracts = "../../core/contracts.go"
	list      = "list.go"
)

// declared is how a contract begins in a folder's contract.go.
var declared = regexp.MustCompile(`(?m)^var (\w+) = contract\{`)

func main() {
	log.SetFlags(0)
	files, err := filepath.Glob("*/contract.go")
	check(err)
	var variables, ops, paths []string
	var bodies bytes.Buffer
	imports := map[string]bool{}
	for _, file := range files {
		variables = append(variables, contract(file, &bodies, imports))
		name := filepath.Dir(file)
		plain := strings.ReplaceAll(name, "_", "") // the name of the package
		ops = append(ops, plain+".Op")
		paths = append(paths, fmt.Sprintf("%s %q", plain, "github.com/seed98097648/tune/internal/ops/"+name))
	}
	write(contracts, "core", slices.Sorted(maps.Keys(imports)),
		"contracts are those of all ops, in the order of Ops.\nvar contracts = []contract", variables, bodies.String())

	write(list, "ops", append(paths, `"github.com/seed98097648/tune/internal/opdef"`),
		"all has every op, in the order of core.Ops.\nvar all = []*opdef.Op", ops, "")
}

// contract adds the declarations of a file to bodies, and what they import to imports; it
// returns the name of the contract.
func contract(path string, bodies *bytes.Buffer, imports map[string]bool) string {
	text, err := os.ReadFile(path)
	check(err)
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, text, parser.ImportsOnly)
	check(err)
	end := f.Name.End()
	for _, decl := range f.Decls {
		end = decl.End()
	}
	for _, i := range f.Imports {
		imports[i.Path.Value] = true
	}
	body := text[fset.Position(end).Offset:]
	bodies.Write(body)
	m := declared.FindSubmatch(body)
	if m == nil {
		log.Fatalf("%s declares no variable that is a contract{", path)
	}
	return string(m[1])
}

// write writes a file of a package: its imports, a list, and what follows.
func write(path, pkg string, imports []string, declaration string, elements []string, rest string) {
	text := fmt.Appendf(nil, `// Code generated from the folders of internal/ops by go generate; DO NOT EDIT.

package %s

import (
%s
)

// %s{
	%s,
}
%s`, pkg, strings.Join(imports, "\n"), declaration, strings.Join(elements, ",\n"), rest)
	out, err := format.Source(text)
	check(err)
	check(os.WriteFile(path, out, 0o666))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
