package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed98097648/tune/core/transport"
)

// buildPlugins builds the plugins of the checkout that the working directory is in, if
// there is one and any of them is missing or older than its sources. Without the go
// command it says so and goes on with what there is.
func (a *app) buildPlugins(ctx context.Context) error {
	root, ok := checkout()
	if !ok {
		return nil
	}
	why, err := stale(root)
	if err != nil {
		return fmt.Errorf("look for plugins to build in %s: %w", root, err)
	}
	if why == "" {
		return nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		a.note("%s, but there is no go command to build it with; going on with the plugins that exist", why)
		return nil
	}
	a.note("%s: building the plugins", why)
	start := time.Now()
	// The revision is left out, so that a commit that does not touch a plugin leaves its
	// checksum, and what is remembered about it, as they are.
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", filepath.Join("bin", "plugins")+string(filepath.Separator), "./plugins/...")
	cmd.Dir = root
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("build the plugins (%w); repair it, or use --kernels none or --plugin-dir FOLDER:\n%s", err, bytes.TrimSpace(output.Bytes()))
	}
	if err := touch(root, start); err != nil {
		return fmt.Errorf("mark the plugins as built: %w", err)
	}
	a.note("built in %s", time.Since(start).Round(100*time.Millisecond))
	return nil
}

// checkout returns the root of this module's source, plugins included, if the working
// directory is in it.
func checkout() (string, bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	root, ok := transport.Checkout(dir)
	if !ok {
		return "", false
	}
	info, err := os.Stat(filepath.Join(root, "plugins"))
	return root, err == nil && info.IsDir()
}

// stale says which plugin has to be built and why, or "".
func stale(root string) (string, error) {
	programs, err := programs(root)
	if err != nil {
		return "", err
	}
	newest, when, err := newestSource(root)
	if err != nil {
		return "", err
	}
	for _, program := range programs {
		short, _ := filepath.Rel(root, program)
		info, err := os.Stat(program)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return short + " is missing", nil
		case err != nil:
			return "", err
		case info.ModTime().Before(when):
			return fmt.Sprintf("%s is older than %s", short, newest), nil
		}
	}
	return "", nil
}

// programs returns the executables that the plugin sources make.
func programs(root string) ([]string, error) {
	mains, err := filepath.Glob(filepath.Join(root, "plugins", "*", "main.go"))
	if err != nil {
		return nil, err
	}
	for i, m := range mains {
		name := filepath.Base(filepath.Dir(m))
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		mains[i] = filepath.Join(root, "bin", "plugins", name)
	}
	return mains, nil
}

// newestSource returns the file that changed last of those that plugins are built from.
func newestSource(root string) (name string, when time.Time, err error) {
	look := func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if base == "testdata" || strings.HasPrefix(base, "_") || strings.HasPrefix(base, ".") {
				return fs.SkipDir
			}
			return nil
		}
		isSource := slices.Contains([]string{".go", ".s", ".mod", ".sum"}, filepath.Ext(base)) && !strings.HasSuffix(base, "_test.go")
		if !isSource {
			return nil
		}
		info, err := d.Info()
		if err == nil && info.ModTime().After(when) {
			name, _ = filepath.Rel(root, path)
			when = info.ModTime()
		}
		return err
	}
	for _, part := range []string{"go.mod", "go.sum", "core", "internal", "plugins"} {
		if err := filepath.WalkDir(filepath.Join(root, part), look); err != nil {
			return "", time.Time{}, err
		}
	}
	return name, when, nil
}

// touch dates the programs back to the start of their build: the go command leaves a
// file alone whose contents would not change, and a source may have changed meanwhile.
func touch(root string, start time.Time) error {
	programs, err := programs(root)
	if err != nil {
		return err
	}
	for _, p := range programs {
		if err := os.Chtimes(p, start, start); err != nil {
			return err
		}
	}
	return nil
}
