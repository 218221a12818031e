package transport

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/wire"
)

// TestAThreadThatCannotBeRestoredEnds: who starts a plugin changes its thread, which no other
// goroutine may get unless that could be undone. The plugin, which ends with the thread, says
// goodbye before.
func TestAThreadThatCannotBeRestoredEnds(t *testing.T) {
	path, thread := pluginPath(t, "plugin"), os.Getpid()
	o := quiet(Options{}).withDefaults()
	o.how.coarseTimers = func() func() error {
		thread = unix.Gettid()
		return func() error { return syscall.EPERM }
	}
	checksum := checksumOf(t, path)
	for thread == os.Getpid() { // the first thread is there until the program ends
		p, err := startProcess(context.Background(), &instance{opts: o, path: path, checksum: checksum})
		if err != nil {
			t.Fatal(err)
		}
		p.close()
		if s := p.cmd.ProcessState; s == nil || !s.Success() {
			t.Errorf("the plugin ended with %v", s)
		}
	}
	eventually(t, "the thread's end", func() bool {
		_, err := os.Stat(fmt.Sprint("/proc/self/task/", thread))
		return err != nil
	})
}

// TestOnlyAThreadOfThePluginIsPutSomewhere: what the plugin offers is a number that it has written into shared memory.
func TestOnlyAThreadOfThePluginIsPutSomewhere(t *testing.T) {
	p := open(t, quiet(Options{}))
	bell := p.bell(t)
	offered := bell.thread
	if offered == 0 || offered != bell.Offered() {
		t.Fatalf("thread %d, and the plugin offered %d", offered, bell.Offered())
	}
	for _, lie := range []int{0, -1, os.Getpid(), 1 << 30} {
		wire.Order.PutUint32(bell.control.Bytes()[wire.OffPluginThread:], uint32(lie))
		bell.thread = 0
		if bell.meet(p.pid()); bell.thread != 0 {
			t.Errorf("thread %d was taken for one of the plugin", bell.thread)
		}
	}
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	bell.thread = offered
	for range 6 { // the last of these are waited for asleep, and the core is given to the plugin
		p.mustForward(t, "slow")
	}
	if !bell.spin.Idle() {
		t.Fatal("after slow calls the next wait is an active one")
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(offered, &set); err != nil {
		t.Fatal(err)
	}
	if set != all {
		t.Errorf("the plugin's thread may use %d of %d cores after a call", set.Count(), all.Count())
	}
}

// TestAPluginWithItsOwnCoresKeepsThem: where it is confined to some, it is put onto no other.
func TestAPluginWithItsOwnCoresKeepsThem(t *testing.T) {
	p := open(t, quiet(Options{MaxCPUs: 1}))
	if bell := p.bell(t); bell.thread != 0 {
		t.Errorf("thread %d is put onto the host's cores", bell.thread)
	}
	p.mustForward(t, "")
}
