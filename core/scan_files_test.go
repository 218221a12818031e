package core_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed98097648/tune/core"
)

// manyFiles fills a folder with files of one content: links to the first, or copies.
func manyFiles(t *testing.T, n int, content string, links bool) string {
	t.Helper()
	dir := t.TempDir()
	name := func(i int) string { return filepath.Join(dir, plugin(fmt.Sprintf("file%04d", i))) }
	for i := range n {
		var err error
		if links && i > 0 {
			err = os.Link(name(0), name(i))
		} else {
			err = os.WriteFile(name(i), []byte(content), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOfManyEqualFilesTwoAreStarted: a folder of links would start as many processes.
func TestOfManyEqualFilesTwoAreStarted(t *testing.T) {
	const n = 1000
	for _, links := range []bool{true, false} {
		opener := new(fakeOpener)
		r := scan(t, opener.open, manyFiles(t, n, "norm", links))
		if len(opener.opened) != 2 {
			t.Errorf("links %v: %d of %d files were started", links, len(opener.opened), n)
		}
		first := r.Listing()[0]
		if first.Err != nil || len(r.Kernels()) != 1 || len(r.Listing()) != n {
			t.Errorf("links %v: %d files listed, the first with %v, and %d kernels",
				links, len(r.Listing()), first.Err, len(r.Kernels()))
		}
		for _, f := range r.Listing()[1:] {
			if !errors.Is(f.Err, core.ErrDuplicate) || !strings.Contains(f.Err.Error(),
				f.Path) || !strings.Contains(f.Err.Error(), first.Path) {
				t.Fatalf("links %v: %s is listed with %v", links, f.Path, f.Err)
			}
		}
	}
}

// TestOfManyEqualFilesThatCannotBeUsedTwoAreStarted: each may take as long as starting may.
func TestOfManyEqualFilesThatCannotBeUsedTwoAreStarted(t *testing.T) {
	var started atomic.Int32
	r := scan(t, func(context.Context, string) (core.Plugin, error) {
		started.Add(1)
		return nil, errors.New("no handshake")
	}, manyFiles(t, 50, "broken", true))
	if n := started.Load(); n != 2 {
		t.Errorf("%d files were started", n)
	}
	last := r.Listing()[49].Err
	if last == nil || !strings.Contains(last.Error(), r.Listing()[0].Path) || !strings.Contains(last.Error(),
		"no handshake") {
		t.Errorf("the last is listed with %v", last)
	}
}

// TestAProgramThatGoesByItsNameIsAskedEachTime: one file under many names can be as many
// plugins. So many keep no process each.
func TestAProgramThatGoesByItsNameIsAskedEachTime(t *testing.T) {
	const n, awake = 40, 32
	opener := new(fakeOpener)
	if r := scan(t, opener.open, manyFiles(t, n, "by name", true)); len(r.Kernels()) != n {
		t.Errorf("%d plugins of %d", len(r.Kernels()), n)
	}
	rest := 0
	for _, p := range opener.opened {
		if p.rested {
			rest++
		}
	}
	if rest != n-awake {
		t.Errorf("%d of %d plugins rest, want %d", rest, n, n-awake)
	}
}

// alive counts plugins that are open.
type alive struct {
	core.Plugin
	now *atomic.Int32
}

func (a alive) Close() error {
	a.now.Add(-1)
	return a.Plugin.Close()
}

// TestDuplicatesEndAtOnce: different files with one name are all started, but few of
// them live at a time.
func TestDuplicatesEndAtOnce(t *testing.T) {
	contents := map[string]string{}
	for i := range 200 {
		contents[fmt.Sprint("file", i)] = fmt.Sprintf("norm\nbuild %d", i)
	}
	opener := new(fakeOpener)
	var now, most atomic.Int32
	scan(t, func(ctx context.Context, path string) (core.Plugin, error) {
		p, err := opener.open(ctx, path)
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return alive{p, &now}, err
	}, writePlugins(t, contents))
	if most.Load() > 10 || now.Load() != 1 || len(opener.opened) != 200 {
		t.Errorf("%d plugins lived at a time, %d live now, %d were started; want at most 10, 1 and 200",
			most.Load(), now.Load(), len(opener.opened))
	}
}

// TestFilesThatDifferLateAreOthers: they have one size, and begin alike.
func TestFilesThatDifferLateAreOthers(t *testing.T) {
	contents := map[string]string{}
	for i := range 3 {
		contents[fmt.Sprint("file", i)] = fmt.Sprintf("norm\n%s%d", strings.Repeat("x", 300_000), i)
	}
	opener := new(fakeOpener)
	if scan(t, opener.open, writePlugins(t, contents)); len(opener.opened) != 3 {
		t.Errorf("%d of 3 files were started", len(opener.opened))
	}
}
