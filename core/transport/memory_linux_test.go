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
	for name, pool := range map[string]*shm.Pool{"outputs": p.output, "copies": p.stage.memory} {
		region := func() ([]byte, *shm.Region) {
			b, err := pool.Alloc(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			r, _, _ := shm.Locate(b)
			return b, r
		}
		free, freed := region()
		pool.Free(free)
		if p.Rest(); !freed.Closed() {
			t.Errorf("it kept memory for %s that nobody uses", name)
		}
		b, used := region()
		t.Cleanup(func() { pool.Free(b) })
		if p.Rest(); used.Closed() {
			t.Errorf("it gave back memory for %s that is in use", name)
		}
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
	f.Dim = 1 << 18 // five tokens of it are 5 MiB, in and out
	c := makeCall(t, core.RMSNorm, core.Forward, f, p.host, p.norm.OutputMemory())
	if err := core.Run(context.Background(), p.norm, c); err != nil {
		t.Fatal(err)
	}
	after, err := p.norm.Holdings()
	if grown := after.Memory - before.Memory; err != nil || grown < 10<<20 {
		t.Errorf("%d bytes more after a call on 10 MiB, %v", grown, err)
	}
	p.Rest()
	if n, err := p.norm.Holdings(); err == nil {
		t.Errorf("%d bytes without a process", n.Memory)
	}
}
