package transport

import (
	"errors"
	"os/exec"

	"golang.org/x/sys/unix"
)

// awaitEnd waits until the process has ended, and ends the rest of its process group:
// before the process is forgotten, because its number could be another's from then on.
func awaitEnd(cmd *exec.Cmd) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = cmd.Cancel() // nobody may be left
	return cmd.Wait()
}
