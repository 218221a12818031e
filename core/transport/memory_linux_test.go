package transport

import (
	"context"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/shm"
)

// TestAPluginThatRestsGivesItsMemoryBack, but for what is in use.
func TestAPluginThatRestsGivesItsMemoryBack(t *testing.T) {
	p := open(t, quiet(Options{}))
	output := p.output
	region := func() *shm.Region {
		b, err := output.Alloc(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		r, _, _ := shm.Locate(b)
		t.Cleanup(func() { output.Free(b) })
		return r
	}
	free, err := output.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	freed, _, _ := shm.Locate(free)
	output.Free(free)
	if p.Rest(); !freed.Closed() {
		t.Error("it kept memory that nobody uses")
	}
	used := region()
	if p.Rest(); used.Closed() {
		t.Error("it gave back memory that is in use")
	}
}

// TestMemoryIsOfThePluginsProcess: it has what its own memory holds, and nothing while
// it does not run.
func TestMemoryIsOfThePluginsProcess(t *testing.T) {
	p := open(t, quiet(Options{}))
	before, err := p.norm.Holdings()
	if err != nil || before.Memory < 1<<20 {
		t.Fatalf("%d bytes, %v", before.Memory, err)
	}
	f := normFacts()
	f.Dim = 1 << 20 // five tokens of it are 20 MiB, in and out
	c := makeCall(t, core.RMSNorm, core.Forward, f, p.host, p.norm.OutputMemory())
	if err := core.Run(context.Background(), p.norm, c); err != nil {
		t.Fatal(err)
	}
	after, err := p.norm.Holdings()
	if grown := after.Memory - before.Memory; err != nil || grown < 40<<20 {
		t.Errorf("%d bytes more after a call on 40 MiB, %v", grown, err)
	}
	p.Rest()
	if n, err := p.norm.Holdings(); err == nil {
		t.Errorf("%d bytes without a process", n.Memory)
	}
}
