package shm

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// attack tries every way to write to the region behind a descriptor.
func attack(fd int, name string) []string {
	var lines []string
	say := func(action string, err error) { lines = append(lines, fmt.Sprintf("%s %s: %v", name, action, err)) }
	f := os.NewFile(uintptr(fd), name)
	_, err := Map(f, childSize, true)
	say("map writable", err)
	v, err := Map(f, childSize, false)
	say("map", err)
	if err == nil {
		say("mprotect", unix.Mprotect(v.Bytes(), unix.PROT_READ|unix.PROT_WRITE))
	}
	_, err = unix.Pwrite(fd, []byte{1}, 0)
	say("pwrite", err)
	say("truncate", unix.Ftruncate(fd, 1))
	if err == nil {
		return lines
	}
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDWR, 0)
	if err == nil {
		_, err = Map(again, childSize, true)
	}
	say("map writable after reopening", err)
	return lines
}

// platformRoles are the roles that need Linux.
func platformRoles() map[string]func() []string {
	return map[string]func() []string{
		"limited": allocLimited,
		"folder":  fillFolder,
		"descriptors": func() []string {
			lines := append(attack(3, "host"), attack(4, "own")...)
			return append(lines, attack(5, "other")...)
		},
	}
}

// TestTheKernelGuardsHostRegions: through a descriptor of a HostOnly region, another
// process can read and nothing else; its own region it can write; a Shared region of
// somebody else, passed as ReadOnly, it cannot write through that descriptor.
func TestTheKernelGuardsHostRegions(t *testing.T) {
	host, own, other := newRegion(t, childSize, HostOnly), newRegion(t, childSize, Shared),
		newRegion(t, childSize, Shared)
	ro, err := other.ReadOnly()
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	got := child(t, "descriptors", []*os.File{host.File(), own.File(), ro})
	refused := func(what string) {
		if e := got[what]; e == "" || e == "<nil>" {
			t.Errorf("%s was allowed: %q", what, e)
		}
	}
	allowed := func(what string) {
		if e := got[what]; e != "<nil>" {
			t.Errorf("%s was refused: %q", what, e)
		}
	}
	for _, name := range []string{"host", "own", "other"} {
		allowed(name + " map")
		refused(name + " truncate")
	}
	for _, action := range []string{"map writable", "mprotect", "pwrite"} {
		refused("host " + action)
		refused("other " + action)
		allowed("own " + action)
	}
	refused("host map writable after reopening")
	// Not so for the other: docs/security.md says why, and this holds it to that.
	allowed("other map writable after reopening")
	host.Bytes()[0] = 7 // the maker still writes
	if own.Bytes()[0] != 1 {
		t.Error("the child's write to its own region is not seen")
	}
}
