package core_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
)

type fakePlugin struct {
	manifest core.Manifest
	closed   bool
	rested   bool
}

func (p *fakePlugin) Manifest() core.Manifest { return p.manifest }
func (p *fakePlugin) Close() error            { p.closed = true; return nil }
func (p *fakePlugin) Rest()                   { p.rested = true }
func (p *fakePlugin) Kernels() []core.Kernel {
	var ks []core.Kernel
	for _, info := range p.manifest.Kernels {
		ks = append(ks, &fakeKernel{info: info})
	}
	return ks
}

// fakeOpener opens files by the first line that is written in them: the name of a plugin,
// or a fault, or "by name" for a plugin that is called as its file.
type fakeOpener struct {
	mu     sync.Mutex
	opened map[string]*fakePlugin // by path
}

func (o *fakeOpener) open(ctx context.Context, path string) (core.Plugin, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(string(content), "\n")
	ops := []core.Op{core.RMSNorm}
	switch name {
	case "by name":
		name = filepath.Base(path)
	case "broken":
		return nil, errors.New("broken: no handshake")
	case "hanging":
		ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	case "empty":
		ops = nil
	case "same op twice":
		name, ops = "twice", []core.Op{core.RMSNorm, core.RMSNorm}
	}
	m := core.Manifest{Name: name, Path: path}
	for _, op := range ops {
		m.Kernels = append(m.Kernels, core.Info{Name: name, Op: op, Backward: true})
	}
	if name == "liar" {
		m.Kernels[0].Name = "somebody_else"
	}
	p := &fakePlugin{manifest: m}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.opened == nil {
		o.opened = map[string]*fakePlugin{}
	}
	o.opened[path] = p
	return p, nil
}

// writePlugins fills a new folder with executables of the given contents.
func writePlugins(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(dir, plugin(name)), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// plugin returns the file name of an executable on this system.
func plugin(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

func scan(t *testing.T, open core.Opener, dirs ...string) *core.Registry {
	t.Helper()
	r, err := core.ScanAllKernels(t.Context(), dirs, open)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestScanListsEveryFileInSortedOrderAndUsesTheGoodOnes(t *testing.T) {
	dir := writePlugins(t, map[string]string{"d": "norm", "b": "broken", "a": "swiglu", "c": "hanging"})
	r := scan(t, new(fakeOpener).open, dir)
	var got []string
	for _, f := range r.Listing() {
		line := strings.TrimSuffix(filepath.Base(f.Path), ".exe")
		if f.Err != nil {
			line += ": " + f.Err.Error()
		}
		got = append(got, line)
	}
	want := []string{"a", "b: broken: no handshake", "c: context deadline exceeded", "d"}
	if !slices.Equal(got, want) {
		t.Errorf("listing %q, want %q", got, want)
	}
	if names := r.Names(); !slices.Equal(names, []string{"norm", "swiglu"}) {
		t.Errorf("usable kernels %q, want norm and swiglu", names)
	}
}

func TestScanListsWhatIsNotExecutable(t *testing.T) {
	dir := writePlugins(t, map[string]string{"good": "norm"})
	path := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(path, []byte("norm"), 0o644); err != nil {
		t.Fatal(err)
	}
	opener := new(fakeOpener)
	r := scan(t, opener.open, dir)
	if f := r.Listing()[1]; f.Path != path || f.Err == nil || !strings.Contains(f.Err.Error(), "is not executable") {
		t.Errorf("listed as %s: %v, want %s: not executable", f.Path, f.Err, path)
	}
	if opener.opened[path] != nil {
		t.Error("a file that is not executable was started")
	}
}

func TestScanPassesOverFoldersAndHiddenFiles(t *testing.T) {
	dir := writePlugins(t, map[string]string{".hidden": "broken", "good": "norm"})
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if n := len(scan(t, new(fakeOpener).open, dir).Listing()); n != 1 {
		t.Errorf("listed %d files, want 1", n)
	}
}

func TestScanKeepsTheFirstOfPluginsWithOneName(t *testing.T) {
	first := writePlugins(t, map[string]string{"z": "norm"})
	second := writePlugins(t, map[string]string{"a": "norm\nanother build", "b": "norm\nand another"})
	opener := new(fakeOpener)
	r := scan(t, opener.open, first, second)
	kept := filepath.Join(first, plugin("z"))
	for _, f := range r.Listing() {
		if f.Path == kept {
			if f.Err != nil {
				t.Errorf("the first was refused: %v", f.Err)
			}
		} else {
			wantErrorIs(t, f.Err, core.ErrDuplicate)
			if text := f.Err.Error(); !strings.Contains(text, kept) || !strings.Contains(text, f.Path) {
				t.Errorf("error %q does not name both %s and %s", text, kept, f.Path)
			}
		}
		if closed := opener.opened[f.Path].closed; closed != (f.Path != kept) {
			t.Errorf("%s: closed is %v; the duplicates, and only those, should be", f.Path, closed)
		}
	}
}

func TestScanRefusesBadManifests(t *testing.T) {
	for content, reason := range map[string]string{
		"":              `calls itself ""`,
		"a,b":           "no blanks or commas",
		"-dash":         "no leading dash",
		"auto":          "reserves",
		"clear\x1b[2J":  "control characters",
		"empty":         "offers no kernels",
		"liar":          `offers a kernel named "somebody_else"`,
		"same op twice": "offers rms_norm twice",
	} {
		t.Run(content, func(t *testing.T) {
			opener := new(fakeOpener)
			f := scan(t, opener.open, writePlugins(t, map[string]string{"file": content})).Listing()[0]
			wantErrorIs(t, f.Err, core.ErrIncompatible)
			if !strings.Contains(f.Err.Error(), reason) {
				t.Errorf("error %q, want %q in it", f.Err, reason)
			}
			if !opener.opened[f.Path].closed {
				t.Error("a refused plugin was left running")
			}
		})
	}
}

func TestScanOfAMissingFolderIsAnError(t *testing.T) {
	_, err := core.ScanAllKernels(t.Context(), []string{filepath.Join(t.TempDir(), "nowhere")}, new(fakeOpener).open)
	wantErrorIs(t, err, os.ErrNotExist)
}

func TestWithoutAContextThereIsAnError(t *testing.T) {
	var none context.Context
	_, err := core.ScanAllKernels(none, []string{writePlugins(t, map[string]string{"a": "norm"})}, new(fakeOpener).open)
	builtIn := core.NewRegistry().AddBuiltIn(none, []string{"rope"}, noBuiltIn)
	m, r := newModel(core.RMSNorm), newRegistry(t, newKernel("norm", core.RMSNorm))
	_, applied := core.ApplyKernel(none, "norm", m, r)
	_, repeated := core.Repeat(none, m, r, nil)
	for _, err := range []error{err, builtIn, applied, repeated} {
		if err == nil || !strings.Contains(err.Error(), "there is no context") {
			t.Errorf("error %v", err)
		}
	}
}

func TestCancelledScanClosesWhatItOpened(t *testing.T) {
	dir := writePlugins(t, map[string]string{"a": "norm"})
	ctx, cancel := context.WithCancel(t.Context())
	opener := new(fakeOpener)
	_, err := core.ScanAllKernels(ctx, []string{dir}, func(ctx context.Context, path string) (core.Plugin, error) {
		defer cancel()
		return opener.open(ctx, path)
	})
	wantErrorIs(t, err, context.Canceled)
	if !opener.opened[filepath.Join(dir, plugin("a"))].closed {
		t.Error("the plugin was left running")
	}
}

func TestRestSparesPluginsThatArePlaced(t *testing.T) {
	dir := writePlugins(t, map[string]string{"a": "norm", "b": "swiglu"})
	o := new(fakeOpener)
	r := scan(t, o.open, dir)
	norm, err := r.Lookup("norm")
	if err != nil {
		t.Fatal(err)
	}
	r.Rest([]core.Action{{}, {Kernel: norm[0]}})
	if a, b := o.opened[filepath.Join(dir, plugin("a"))], o.opened[filepath.Join(dir, plugin("b"))]; a.rested ||
		!b.rested {
		t.Errorf("norm, which is placed, rests: %t; swiglu, which is not: %t", a.rested, b.rested)
	}
}

func TestCloseEndsEveryPlugin(t *testing.T) {
	opener := new(fakeOpener)
	r := scan(t, opener.open, writePlugins(t, map[string]string{"a": "norm", "b": "rope"}))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for path, p := range opener.opened {
		if !p.closed {
			t.Errorf("%s was left running", path)
		}
	}
}
