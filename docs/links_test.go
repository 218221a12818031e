// Package docs_test checks that the links of the documentation lead to files.
package docs_test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

var (
	// code is what Markdown shows as it is: fenced blocks and spans.
	code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	// link is an inline link or image; the group is its target.
	link = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)`)
)

// files returns the paths that a text links to, as written, without their anchors.
func files(text string) (paths []string, err error) {
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
		u, err := url.Parse(m[1])
		if err != nil {
			return nil, err
		}
		if u.Scheme == "" && u.Host == "" && u.Path != "" {
			paths = append(paths, u.Path)
		}
	}
	return paths, nil
}

func TestRelativeLinksPointToFiles(t *testing.T) {
	root := testdata.Root(t)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		paths, err := files(string(text))
		if err != nil {
			t.Errorf("%s: %v", page, err)
		}
		for _, path := range paths {
			checked++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), filepath.FromSlash(path))); err != nil {
				t.Errorf("%s links to %s: %v", page, path, err)
			}
		}
	}
	if checked == 0 {
		t.Error("no links were found, not even those of README.md")
	}
}

func TestLinksAreFound(t *testing.T) {
	const text = "[a](x/a.md) and ![b](b.png \"title\"), [c](c.md#part) [d](#here) [e](https://example.org/e)\n" +
		"`[f](f.md)`\n```go\nv[0](g)\n```\n[[`h`](h)"
	got, err := files(text)
	want := []string{"x/a.md", "b.png", "c.md", "h"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}
