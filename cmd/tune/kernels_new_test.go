package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

func TestSourceOfAPlugin(t *testing.T) {
	root, elsewhere := testdata.Root(t), t.TempDir()
	within := filepath.Join(root, "core", "transport")
	for name, tt := range map[string]struct {
		named string
		near  []string
		want  string // or a part of the error
	}{
		"the working directory":        {"", []string{within, elsewhere}, root},
		"where tune was compiled":      {"", []string{elsewhere, within}, root},
		"the one that is named":        {within, []string{elsewhere}, root},
		"neither":                      {"", []string{elsewhere}, "name one with --source FOLDER"},
		"a folder that is no checkout": {elsewhere, []string{within}, "--source: " + elsewhere + " is no checkout"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sourceOf(tt.named, tt.near...)
			if err != nil {
				got = err.Error()
			}
			if (err == nil) != (tt.want == root) || !strings.Contains(got, tt.want) {
				t.Errorf("%q, error %v; want %q", got, err, tt.want)
			}
		})
	}
}
