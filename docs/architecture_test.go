package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const module = "github.com/seed98097648/tune"

// section returns the lines between two comments of a page.
func section(t *testing.T, page, name string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "<!-- begin "+name+" -->\n")
	lines, _, closed := strings.Cut(rest, "<!-- end "+name+" -->")
	if !ok || !closed {
		t.Fatalf("%s has no section %s", page, name)
	}
	return strings.Split(strings.TrimSpace(lines), "\n")
}

// TestThePictureOfTheRoomsIsTrue: every package has one place in it, and imports packages of its
// own floor and of those below only.
func TestThePictureOfTheRoomsIsTrue(t *testing.T) {
	floors := map[string]int{} // of each room, counted from the top
	room := regexp.MustCompile(`\b(?:cmd|core|docs|examples|internal|plugins|trainer)(?:/\w+)*\b`)
	n := 0
	for _, line := range section(t, "architecture.md", "rooms") {
		if !strings.HasPrefix(line, strings.Repeat(" ", 8)) { // else it goes on with the floor above
			n++
		}
		for _, r := range room.FindAllString(line, -1) {
			if _, twice := floors[r]; twice {
				t.Errorf("%s is in the picture twice", r)
			}
			floors[r] = n
		}
	}
	used := map[string]bool{}
	floor := func(pkg string) int {
		for r := strings.TrimPrefix(pkg, module+"/"); r != "."; r = filepath.ToSlash(filepath.Dir(r)) {
			if n, ok := floors[r]; ok {
				used[r] = true
				return n
			}
		}
		t.Errorf("the picture has no room for %s", pkg)
		return 0
	}
	list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		pkgs := strings.Fields(line)
		above := floor(pkgs[0])
		for _, imported := range pkgs[1:] {
			if strings.HasPrefix(imported, module+"/") && floor(imported) < above {
				t.Errorf("%s imports %s, which is above it", pkgs[0], imported)
			}
		}
	}
	for r := range floors {
		if !used[r] {
			t.Errorf("the picture has a room %s, and no package is there", r)
		}
	}
}

// TestTheWaysOfABatchAndOfACallExist: what their steps name is declared there.
func TestTheWaysOfABatchAndOfACallExist(t *testing.T) {
	name := regexp.MustCompile("`((?:cmd|core|internal|plugins|trainer)(?:/\\w+)*)\\.(\\w+)(?:\\.(\\w+))?`")
	for _, way := range []string{"way of a batch", "way of a call"} {
		steps := name.FindAllStringSubmatch(strings.Join(section(t, "architecture.md", way), "\n"), -1)
		if len(steps) < 5 {
			t.Errorf("the %s has %d steps that name something", way, len(steps))
		}
		for _, s := range steps {
			want := s[2]
			if s[3] != "" {
				want += "." + s[3]
			}
			if !declared(t, filepath.Join("..", filepath.FromSlash(s[1])))[want] {
				t.Errorf("%s: there is no %s", way, s[0])
			}
		}
	}
}

// declared returns the functions, types and methods (as Type.Method) of a folder's package.
func declared(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no Go files, %v", dir, err)
	}
	all := map[string]bool{}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					of := d.Recv.List[0].Type
					if p, ok := of.(*ast.StarExpr); ok {
						of = p.X
					}
					if id, ok := of.(*ast.Ident); ok {
						name = id.Name + "." + name
					}
				}
				all[name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if ty, ok := s.(*ast.TypeSpec); ok {
						all[ty.Name.Name] = true
					}
				}
			}
		}
	}
	return all
}
