package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestPluginsAreStaleWhenASourceIsNewer dates files by hand, because the clock of a file
// system may be coarse.
func TestPluginsAreStaleWhenASourceIsNewer(t *testing.T) {
	built := time.Now()
	tests := []struct {
		name    string
		changed string // the file that is newer than the plugin, made for it
		want    string
	}{
		{"nothing newer", "", ""},
		{"its own source", "plugins/p/main.go", "bin/plugins/p is older than plugins/p/main.go"},
		{"a package it may use", "core/transport/serve.go", "bin/plugins/p is older than core/transport/serve.go"},
		{"assembly", "internal/simd/f32_amd64.s", "bin/plugins/p is older than internal/simd/f32_amd64.s"},
		{"dependencies", "go.sum", "bin/plugins/p is older than go.sum"},
		{"a test", "core/core_test.go", ""},
		{"a generator", "internal/simd/_asm/main.go", ""},
		{"test data", "core/testdata/x.go", ""},
		{"another part of the module", "trainer/loop.go", ""},
		{"a text", "core/README.md", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write := func(name string, when time.Time) {
				t.Helper()
				path := filepath.Join(root, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o666); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(path, when, when); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"go.mod", "go.sum", "core/doc.go", "internal/doc.go", "plugins/p/main.go"} {
				write(name, built.Add(-time.Hour))
			}
			programs, err := programs(root)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := stale(root); err != nil || got == "" {
				t.Errorf("without programs, stale is %q, %v; want one that is missing", got, err)
			}
			for _, p := range programs {
				rel, err := filepath.Rel(root, p)
				if err != nil {
					t.Fatal(err)
				}
				write(filepath.ToSlash(rel), built)
			}
			if tt.changed != "" {
				write(tt.changed, built.Add(time.Hour))
			}
			got, err := stale(root)
			if err != nil {
				t.Fatal(err)
			}
			if got != filepath.FromSlash(tt.want) {
				t.Errorf("stale is %q, want %q", got, tt.want)
			}
		})
	}
}
