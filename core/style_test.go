package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// eachGoFile calls use for each Go file of the repository that people write.
func eachGoFile(t *testing.T, use func(path string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains("\n"+string(text), "\n// Code generated ") {
			use(path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestBuiltinsKeepTheirMeaning: below a parameter named make, make is something else.
func TestBuiltinsKeepTheirMeaning(t *testing.T) {
	files := token.NewFileSet()
	eachGoFile(t, func(path string, text []byte) {
		file, err := parser.ParseFile(files, path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, name := range defined(n) {
				if types.Universe.Lookup(name.Name) != nil {
					t.Errorf("%s: %s hides what Go calls so; choose another name", files.Position(name.Pos()), name.Name)
				}
			}
			return true
		})
	})
}

// TestTheContractNamesEveryError: its table in doc.go has all errors that the package can wrap.
func TestTheContractNamesEveryError(t *testing.T) {
	contract, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	files, errs := token.NewFileSet(), 0
	eachGoFile(t, func(path string, text []byte) {
		if filepath.Dir(path) != filepath.Join("..", "core") || strings.HasSuffix(path, "_test.go") {
			return
		}
		file, err := parser.ParseFile(files, path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Err") {
				errs++
				if name := v.Names[0].Name; !strings.Contains(string(contract), "\n//\t"+name+" ") {
					t.Errorf("the table of doc.go has no %s, of %s", name, path)
				}
			}
			return true
		})
	})
	if errs == 0 {
		t.Error("the package has no errors")
	}
}

// defined returns the names that a node gives a meaning where Go's own would have theirs: not
// those of fields and methods.
func defined(n ast.Node) []*ast.Ident {
	var exprs []ast.Expr
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			exprs = n.Lhs
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			exprs = []ast.Expr{n.Key, n.Value}
		}
	case *ast.ValueSpec:
		return n.Names
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.FuncDecl:
		if n.Recv == nil {
			return []*ast.Ident{n.Name}
		}
		return fieldNames(n.Recv)
	case *ast.FuncType:
		return append(append(fieldNames(n.TypeParams), fieldNames(n.Params)...), fieldNames(n.Results)...)
	}
	var names []*ast.Ident
	for _, e := range exprs {
		if name, ok := e.(*ast.Ident); ok {
			names = append(names, name)
		}
	}
	return names
}

func fieldNames(list *ast.FieldList) (names []*ast.Ident) {
	if list != nil {
		for _, f := range list.List {
			names = append(names, f.Names...)
		}
	}
	return names
}

// wide are the folders that still have lines of 120 columns and more. None is to be added.
var wide = strings.Fields(`
core
core/vector
docs
examples
internal/scaffold
internal/simd
internal/simd/_arm64
internal/simd/_asm
plugins/npu_fused_attention/attention
plugins/npu_fused_linear_cross_entropy/linearcrossentropy
plugins/npu_fused_moe/moe
plugins/npu_fused_rmsnorm/rmsnorm
trainer
trainer/autograd
trainer/crosscheck
trainer/models
trainer/nn
`)

// TestLinesFitBesideEachOther, as in a review of two versions: they have less than 120 columns.
func TestLinesFitBesideEachOther(t *testing.T) {
	const most = 120
	found := map[string]bool{}
	eachGoFile(t, func(path string, text []byte) {
		folder := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, ".."+string(filepath.Separator))))
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n >= most {
				found[folder] = true
				if !slices.Contains(wide, folder) {
					t.Errorf("%s:%d: the line has %d columns, want less than %d", path, number, n, most)
				}
			}
		}
	})
	for _, folder := range wide {
		if !found[folder] {
			t.Errorf("%s has no line of %d columns any more: take it off the list of core/style_test.go", folder, most)
		}
	}
}
