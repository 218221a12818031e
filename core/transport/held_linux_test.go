package transport

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAHeldProgramStartsWhateverItInherits: the descriptor that a program is started by is not among those that Go's
// runtime needs in the new process, just above the highest that this inherits. There it was taken for what lay in its
// place: "permission denied".
func TestAHeldProgramStartsWhateverItInherits(t *testing.T) {
	program, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for least := 32; least < 128; least++ {
		fd, err := unix.FcntlInt(null.Fd(), unix.F_DUPFD_CLOEXEC, least)
		if err != nil {
			t.Fatal(err)
		}
		inherited := os.NewFile(uintptr(fd), os.DevNull)
		held, err := openHeld(program)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(runnable(held, program))
		cmd.ExtraFiles = []*os.File{inherited}
		if err := cmd.Run(); err != nil {
			t.Errorf("started as %s, and inheriting %d: %v", cmd.Path, inherited.Fd(), err)
		}
		held.Close()
		inherited.Close()
	}
}
