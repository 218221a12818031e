package ops

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/testdata"
)

// TestFactsSayWhichOpsHaveThem: docs/protocol.md sends authors of plugins to the comments of core.Facts. A comment
// begins with the ops, has a colon and what the fact is to them, and perhaps a semicolon and the same of others.
func TestFactsSayWhichOpsHaveThem(t *testing.T) {
	path := filepath.Join(testdata.Root(t), "core", "facts.go")
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string][]string{}
	last := ""
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Facts" {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			name := f.Names[0].Name
			said[name] = opsOf(f.Doc.Text()+f.Comment.Text(), last, said)
			last = name
		}
		return false
	})
	general := []string{"DType", "WeightDType", "Frozen"} // of all ops, and of those with weights
	for _, field := range reflect.VisibleFields(reflect.TypeFor[core.Facts]()) {
		var have []string
		for _, op := range core.Ops() {
			has := func(f core.Facts) bool { return !reflect.ValueOf(f).FieldByIndex(field.Index).IsZero() }
			if slices.ContainsFunc(tried(Of(op)), has) {
				have = append(have, string(op))
			}
		}
		if !slices.Contains(general, field.Name) && !slices.Equal(said[field.Name], have) {
			t.Errorf("the comment of core.Facts.%s names %v; the ops %v have it", field.Name, said[field.Name], have)
		}
	}
}

var with = regexp.MustCompile(`^ops with (\w+)$`)

// opsOf returns the ops that a comment names, sorted. The field before it is last.
func opsOf(comment, last string, said map[string][]string) []string {
	var all []string
	for part := range strings.SplitSeq(strings.Join(strings.Fields(comment), " "), "; ") {
		names, _, _ := strings.Cut(part, ":")
		if names == "the same" {
			all = append(all, said[last]...)
		} else if of := with.FindStringSubmatch(names); of != nil {
			all = append(all, said[of[1]]...)
		}
		for name := range strings.SplitSeq(names, ", ") {
			if slices.Contains(core.Ops(), core.Op(name)) {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
