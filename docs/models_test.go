package docs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/models"
)

//go:generate go test . -run TestThePagesListTheModelFamilies|TestAddingAFamily -update-families

var updateFamilies = flag.Bool("update-families", false, "write the lists of model families instead of comparing them")

// TestThePagesListTheModelFamilies: all that are registered, as they describe themselves.
func TestThePagesListTheModelFamilies(t *testing.T) {
	var types []string
	table := "| model_type | models | differs from llama in |\n|---|---|---|\n"
	for _, f := range models.Families() {
		types = append(types, f.Type)
		table += fmt.Sprintf("| `%s` | %s | %s |\n", f.Type, f.Models, f.Differs)
	}
	for page, list := range map[string]struct{ form, text string }{
		"README.md":      {`(?m)^Model types: .*\n`, "Model types: " + strings.Join(types, ", ") + "\n"},
		"docs/models.md": {`(?m)^\| model_type \|(.*\n\|)*.*\n`, table},
	} {
		path := filepath.Join(testdata.Root(t), filepath.FromSlash(page))
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		old := regexp.MustCompile(list.form).FindString(string(text))
		switch {
		case old == "":
			t.Errorf("%s has no list of the form %s", page, list.form)
		case old != list.text && !*updateFamilies:
			t.Errorf("%s lists other model families than there are; run go generate ./docs", page)
		case old != list.text:
			if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, list.text, 1)), 0o644); err != nil {
				t.Error(err)
			}
		}
	}
}
