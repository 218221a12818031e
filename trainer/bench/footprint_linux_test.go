package bench

import (
	"bufio"
	"os/exec"
	"testing"
)

func TestFootprintGrowsWithTheMemoryOfThisProcessAndOfItsChildren(t *testing.T) {
	before := footprint()
	if before == 0 {
		t.Skip("this system does not tell the proportional set size")
	}
	const much = 32 << 20
	held := make([]byte, much)
	for i := range held {
		held[i] = 1
	}
	own := footprint()
	if own < before+much*9/10 {
		t.Errorf("%d bytes more make it grow from %d to %d", much, before, own)
	}
	cmd := exec.Command("sh", "-c", "x=$(head -c 33554432 /dev/zero | tr '\\0' a); echo ready; read wait")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("no shell: %v", err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if with := footprint(); with < own+much*9/10 {
		t.Errorf("a child with %d bytes makes it grow from %d to %d", much, own, with)
	}
	held[0]++ // still in use
}
