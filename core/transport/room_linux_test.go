//go:build amd64 || arm64

package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/sandbox"
)

// hostWithoutRoom calls a plugin the portable way, in a folder for temporary files of 4 MiB that the host's own
// tensors fill up, and again when they are given back.
func hostWithoutRoom() {
	if err := sandbox.LimitFolder(os.TempDir(), 4<<20); err != nil {
		fmt.Println("cannot be made here:", err)
		return
	}
	if err := callWithoutRoom(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func callWithoutRoom() error {
	o := quiet(Options{Portable: true})
	opened, err := o.Open(context.Background(), os.Args[1])
	if err != nil {
		return err
	}
	defer opened.Close()
	p := opened.(*plugin)
	host, err := o.NewMemory("host", 0)
	if err != nil {
		return err
	}
	defer host.Close()
	var taken [][]byte
	for err == nil && len(taken) < 1<<10 {
		var b []byte
		if b, err = host.Alloc(64 << 10); err == nil {
			taken = append(taken, b)
		}
	}
	fmt.Println("host:", err)
	for _, b := range taken {
		for i := range b {
			b[i] = 1
		}
	}
	// Tensors of Go's own heap are copied to where the plugin can reach them.
	c := makeCall(new(testing.T), core.RMSNorm, core.Forward, normFacts(), nil, nil)
	fmt.Println("call:", core.Run(context.Background(), p.kernels[0], c))
	if err := host.Close(); err != nil {
		return err
	}
	fmt.Println("again:", core.Run(context.Background(), p.kernels[0], c))
	fmt.Println("deaths:", p.kernels[0].Health().Deaths)
	return nil
}

// TestWithoutRoomForTensorsACallFails: neither side dies of a write to a file that its folder has no room for, and
// the plugin is as good as before once there is some.
func TestWithoutRoomForTensorsACallFails(t *testing.T) {
	cmd := exec.Command(pluginPath(t, "host_without_room"), pluginPath(t, "plugin"))
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	sandbox.OwnMounts(cmd)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || strings.HasPrefix(string(out), "cannot be made here") {
		t.Skipf("%v: %s", err, out)
	}
	if err != nil {
		t.Fatalf("%v: %.2000s", err, out)
	}
	lines := strings.Split(string(out), "\n")
	for i, want := range []string{"host: shm: " + ErrNoRoom.Error(), "call: ", "again: <nil>", "deaths: 0"} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("line %d of %s is not %q", i+1, out, want)
		}
		for _, part := range []string{dir + ", where memory lies in files,", "TMPDIR"} {
			if i < 2 && !strings.Contains(lines[i], part) {
				t.Errorf("%s does not say %q", lines[i], part)
			}
		}
	}
}
