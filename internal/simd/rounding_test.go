package simd

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// free are the functions of which the compiler may round products as it likes, and why.
var free = map[string]string{
	"dotGeneric":         "a sum, within a tolerance",
	"dot3Generic":        "a sum, within a tolerance",
	"sumGeneric":         "a sum, within a tolerance",
	"looseGeneric":       "a sum, within a tolerance",
	"addProductsGeneric": "the product of two float32 is exact in float64",
	"dotWideGeneric":     "the product of two float32 is exact in float64",
	"sumSquaresGeneric":  "the product of two float32 is exact in float64",
	"expSumGeneric":      "the product of two float32 is exact in float64",
	"exp":                "an approximation, within a tolerance",
	"siluGradGeneric":    "stands on exp",
	"swigluGradGeneric":  "stands on exp",
	"fromFloat16Generic": "the product with a power of two is exact",
	"work":               "an estimate, which moves no bits",
	"cut":                "an estimate, which moves no bits",
	"MaxThreads":         "whole numbers",
	"fits":               "the product of two float32 is exact in float64, and k is a whole number",
}

// TestProductsAreRoundedWhereBitsAreFixed reads the package for products that a compiler may
// fuse with an addition, which it may do across statements, too: only a conversion prevents it.
func TestProductsAreRoundedWhereBitsAreFixed(t *testing.T) {
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	found := map[string]bool{}
	for _, p := range fusable(fset, files) {
		found[p.function] = true
		if free[p.function] == "" {
			t.Errorf("%s: %s: convert the product, as in float32(x*y), or say in this test why its rounding is free", p.at,
				p.function)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(free)) {
		if !found[name] {
			t.Errorf("%s is said to round freely, and has nothing to fuse", name)
		}
	}
}

func TestWhatCompilersFuse(t *testing.T) {
	for _, c := range []struct {
		code string
		want int
	}{
		{"r = x*y + z", 1},
		{"r = z - (x*y)", 1},
		{"r = -(x*y) + z", 1},
		{"r += x * y", 1},
		{"r -= x * y", 1},
		{"t := x * y; r = t + z", 1},
		{"a[0] += x * y", 1},
		{"a[0] = f(x * y)", 1},
		{"var t = x * y; r = t", 1},
		{"r = float32(x*y) + float32(y*z)", 0},
		{"r += float32(x * y)", 0},
		{"r = float32(x*y*z) + x", 0},
		{"a[0] = x * y * z", 0},
		{"a[0], a[1] = x*y, (y*z)", 0},
		{"a[0] = x * y / z", 0},
		{"r = x*y/z + x", 0},
		{"i = i*i + 1", 0},
		{"a[i*i+1] = 0", 0},
		{"const c = 2.0 * 3; r = c + x", 0},
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "code.go", "package p\nfunc f(x float32) float32\nfunc g(a []float32, r, x, y, "+
			"z float32, i int) {\n"+c.code+"\n}\n", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(fusable(fset, []*ast.File{f})); got != c.want {
			t.Errorf("%s: %d places, want %d", c.code, got, c.want)
		}
	}
}

// place is a product that may be fused.
type place struct {
	at       token.Position
	function string
}

// fusable returns the products of floating-point numbers that are not converted, and neither
// part of a longer product or quotient nor all that is written to an element.
func fusable(fset *token.FileSet, files []*ast.File) []place {
	// Without imports and with the files of all systems there are errors; what has no type then
	// is taken for a floating-point number.
	config := types.Config{Error: func(error) {}, Importer: noImports{}}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	config.Check("simd", fset, files, info) //nolint:errcheck // see above
	var places []place
	for _, f := range files {
		for _, d := range f.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			var above []ast.Node
			ast.Inspect(function, func(n ast.Node) bool {
				if n == nil {
					above = above[:len(above)-1]
					return true
				}
				if isProduct(n, info) && !isRounded(n, above, info) {
					places = append(places, place{fset.Position(n.Pos()), function.Name.Name})
				}
				above = append(above, n)
				return true
			})
		}
	}
	return places
}

type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	return nil, errors.New("not needed: " + path)
}

// isProduct reports whether n multiplies floating-point numbers at run time.
func isProduct(n ast.Node, info *types.Info) bool {
	product, ok := n.(*ast.BinaryExpr)
	if !ok || product.Op != token.MUL {
		return false
	}
	tv := info.Types[product]
	if tv.Value != nil {
		return false
	}
	if tv.Type == nil {
		return true
	}
	basic, ok := tv.Type.Underlying().(*types.Basic)
	return !ok || basic.Kind() == types.Invalid || basic.Info()&types.IsFloat != 0
}

// isRounded reports whether a product is rounded by what it is in; above ends with that.
func isRounded(n ast.Node, above []ast.Node, info *types.Info) bool {
	for len(above) > 0 {
		switch in := above[len(above)-1].(type) {
		case *ast.ParenExpr, *ast.UnaryExpr:
		case *ast.BinaryExpr:
			return in.Op == token.MUL || in.Op == token.QUO
		case *ast.CallExpr:
			return info.Types[in.Fun].IsType()
		case *ast.AssignStmt:
			i := slices.IndexFunc(in.Rhs, func(x ast.Expr) bool { return x == n })
			if in.Tok != token.ASSIGN || i < 0 || i >= len(in.Lhs) {
				return false
			}
			_, element := in.Lhs[i].(*ast.IndexExpr)
			return element
		default:
			return false
		}
		n, above = above[len(above)-1], above[:len(above)-1]
	}
	return false
}
