//go:build amd64 || arm64

package transport

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/sandbox"
)

// oddMachine is a machine that lacks or refuses something.
type oddMachine struct {
	enter    func() error // makes this process one on such a machine
	mounts   bool         // enter mounts something
	portable bool         // the portable way is asked for
	want     string       // which way is taken
}

// linuxOnly are the calls that the transport makes on Linux alone.
func linuxOnly() map[string]sandbox.Call {
	return map[string]sandbox.Call{
		"memfd_create": sandbox.MemfdCreate, "seals": sandbox.AddSeals, "lease": sandbox.SetLease,
		"death signal": sandbox.SetDeathSignal, "timer slack": sandbox.SetTimerSlack,
		"futex to wait": sandbox.SharedFutexWait, "futex to wake": sandbox.SharedFutexWake,
	}
}

func refuse(with syscall.Errno, calls ...sandbox.Call) func() error {
	return func() error { return sandbox.Refuse(with, calls...) }
}

func oddMachines() map[string]oddMachine {
	return map[string]oddMachine{
		"ordinary":                  {want: "doorbell"},
		"memfd_create refused":      {enter: refuse(syscall.EPERM, sandbox.MemfdCreate), want: "stream"},
		"memfd_create unknown":      {enter: refuse(syscall.ENOSYS, sandbox.MemfdCreate), want: "stream"},
		"seals refused":             {enter: refuse(syscall.EPERM, sandbox.AddSeals), want: "stream"},
		"leases refused":            {enter: refuse(syscall.EPERM, sandbox.SetLease), want: "doorbell"},
		"prctl refused":             {enter: refuse(syscall.EPERM, sandbox.Prctl), want: "doorbell"},
		"sched_setaffinity refused": {enter: refuse(syscall.EPERM, sandbox.SchedSetaffinity), want: "doorbell"},
		"no proc":                   {enter: sandbox.HideProc, mounts: true, want: "stream"},
		"64 open files":             {enter: func() error { return sandbox.LimitFiles(64) }, want: "doorbell"},
		"64 open files, portable":   {enter: func() error { return sandbox.LimitFiles(64) }, portable: true, want: "stream"},
		"a long TMPDIR":             {enter: longTemp, want: "doorbell"},
		"a long TMPDIR, portable":   {enter: longTemp, portable: true, want: "stream"},
		"TMPDIR in this folder":     {enter: tempIn("."), want: "doorbell"},
		"that, portable":            {enter: tempIn("."), portable: true, want: "stream"},
		"no TMPDIR":                 {enter: tempIn("/no/such/folder"), want: "doorbell"},
		"no files in TMPDIR":        {enter: tempIn("/proc/self"), want: "doorbell"},
		"a TMPDIR of 4 MiB, portable": {enter: func() error { return sandbox.LimitFolder(os.TempDir(), 4<<20) },
			mounts: true, portable: true, want: "stream"},
		"fallocate unknown, portable": {enter: refuse(syscall.ENOSYS, sandbox.Fallocate), portable: true, want: "stream"},
		// Whoever makes one of Linux's own calls dies of it, host or plugin.
		"portable, nothing of Linux's": {portable: true, mounts: true, want: "stream",
			enter: func() error {
				return errors.Join(sandbox.HideProc(), sandbox.Kill(slices.Collect(maps.Values(linuxOnly()))...))
			}},
	}
}

// longTemp has the folder for temporary files where no socket can be.
func longTemp() error {
	dir := filepath.Join(os.TempDir(), strings.Repeat("x", 70), strings.Repeat("y", 70))
	return errors.Join(os.MkdirAll(dir, 0o700), os.Setenv("TMPDIR", dir))
}

// tempIn has a folder for temporary files that is of no use as it is named.
func tempIn(dir string) func() error {
	return func() error { return errors.Join(os.Chdir(os.TempDir()), os.Setenv("TMPDIR", dir)) }
}

// platformRoles are the roles of this file; see roles.
func platformRoles() map[string]func() {
	return map[string]func(){"host_on_odd_machine": hostOnOddMachine, "host_without_room": hostWithoutRoom,
		"host_with_few_files": hostWithFewFiles}
}

// hostOnOddMachine makes its machine an odd one, opens a plugin there, has it compute, and
// prints a checksum of the results, how many tensors were copied, and which way was taken.
func hostOnOddMachine() {
	m := oddMachines()[os.Args[2]]
	if call, ok := linuxOnly()[os.Args[2]]; ok {
		m.enter = func() error { return sandbox.Kill(call) }
	}
	if m.enter != nil {
		if err := m.enter(); err != nil {
			fmt.Println("cannot be made here:", err)
			return
		}
	}
	if err := computeOnOddMachine(m); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func computeOnOddMachine(m oddMachine) error {
	o := quiet(Options{Portable: m.portable, Strict: true})
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
	h := sha256.New()
	for _, pass := range []core.Pass{core.Forward, core.Backward} {
		c := makeCall(new(testing.T), core.RMSNorm, pass, normFacts(), host, p.output)
		if err := core.Run(context.Background(), p.kernels[0], c); err != nil {
			return err
		}
		for _, out := range c.Out {
			h.Write(out.Data)
		}
	}
	way := "doorbell"
	if _, stream := p.proc.link.(*streamLink); stream {
		way = "stream"
	}
	fmt.Printf("%x, %d copies, by %s\n", h.Sum(nil), p.kernels[0].Health().Copies, way)
	return nil
}

// TestOddMachinesGiveTheSameBits: what a machine lacks or refuses is done another way, with
// the same results and without a copy, and the portable way is that of other systems.
func TestOddMachinesGiveTheSameBits(t *testing.T) {
	if os.Getenv("TUNE_TRANSPORT") == "portable" {
		t.Skip("the machines choose the way by themselves")
	}
	run := func(t *testing.T, name string) string {
		cmd := exec.Command(pluginPath(t, "host_on_odd_machine"), pluginPath(t, "plugin"), name)
		cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
		if oddMachines()[name].mounts {
			sandbox.OwnMounts(cmd)
		}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) || strings.HasPrefix(string(out), "cannot be made here") {
			t.Skipf("%v: %s", err, out)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	bits, _, _ := strings.Cut(run(t, "ordinary"), ",")
	for name, m := range oddMachines() {
		t.Run(name, func(t *testing.T) {
			if got, want := run(t, name), fmt.Sprintf("%s, 0 copies, by %s\n", bits, m.want); got != want {
				t.Errorf("%swant %s", got, want)
			}
		})
	}
}

// TestLinuxsWayMakesTheCallsThatThePortableOneMustNot: else the test above would show nothing.
func TestLinuxsWayMakesTheCallsThatThePortableOneMustNot(t *testing.T) {
	if os.Getenv("TUNE_TRANSPORT") == "portable" {
		t.Skip("Linux's way is not taken")
	}
	for name := range linuxOnly() {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(pluginPath(t, "host_on_odd_machine"), pluginPath(t, "plugin"), name)
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("nobody made the call: %s", out)
			}
		})
	}
}
