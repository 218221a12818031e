package shm

import (
	"os"
	"strings"
	"testing"
)

// makers are the two ways to make a region.
var makers = map[string]func(string, int64, Kind) (*Region, error){"default": New, "file": NewFile}

func newRegion(t testing.TB, size int64, kind Kind) *Region {
	t.Helper()
	r, err := New("test", size, kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestLocateFindsTheRegionOfASlice(t *testing.T) {
	a, b := newRegion(t, 1<<16, HostOnly), newRegion(t, 1<<16, Shared)
	for _, r := range []*Region{a, b} {
		s := r.Bytes()[64:564]
		for off := range int64(3) {
			got, at, ok := Locate(s[off*8:])
			if !ok || got != r || at != 64+off*8 {
				t.Errorf("Locate: region %v at %d, %v; want %s at %d", got, at, ok, r.name, 64+off*8)
			}
		}
		if _, _, ok := Locate(r.Bytes()[r.Size()-1:]); !ok {
			t.Error("the last byte is not found")
		}
	}
	if a.ID() == b.ID() || a.ID() == 0 {
		t.Errorf("ids %d and %d", a.ID(), b.ID())
	}
	for name, s := range map[string][]byte{"heap": make([]byte, 8), "empty": a.Bytes()[:0], "nil": nil} {
		if r, _, ok := Locate(s); ok {
			t.Errorf("%s slice found in region %s", name, r.name)
		}
	}
}

func TestCloseRemovesTheRegion(t *testing.T) {
	for name, newRegion := range makers {
		t.Run(name, func(t *testing.T) {
			r, err := newRegion("test", 1<<16, HostOnly)
			if err != nil {
				t.Fatal(err)
			}
			file := r.path
			b := r.Bytes()[:8]
			for range 2 {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				if !r.Closed() {
					t.Error("a closed region does not say so")
				}
			}
			if _, _, ok := Locate(b); ok {
				t.Error("a slice of a closed region is still found")
			}
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%s was left behind", file)
			}
		})
	}
}

func TestNewRefusesSizes(t *testing.T) {
	for name, newRegion := range makers {
		if r, err := newRegion("test", -1, HostOnly); err == nil {
			t.Errorf("%s: size -1 gives region %v", name, r.ID())
		}
	}
}

func TestMapRefusesAShortFile(t *testing.T) {
	r, err := NewFile("test", 4096, Shared)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := MapPath(r.Path(), 8192, false); err == nil || !strings.Contains(err.Error(), "fewer than 8192") {
		t.Errorf("error %v", err)
	}
	if _, err := MapPath(r.Path()+".absent", 4096, false); err == nil {
		t.Error("a missing file was mapped")
	}
}

func BenchmarkLocate(b *testing.B) {
	r := newRegion(b, 1<<20, HostOnly)
	for b.Loop() {
		if _, _, ok := Locate(r.data[4096:5000]); !ok {
			b.Fatal("lost")
		}
	}
}

// TestAFileSweptWhileItClosesIsClosed: other processes may remove a file as soon as it is unlocked.
func TestAFileSweptWhileItClosesIsClosed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				Sweep()
			}
		}
	}()
	defer func() { close(stop); <-ended }()
	for range 3000 {
		r, err := NewFile("swept", 4096, HostOnly)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
