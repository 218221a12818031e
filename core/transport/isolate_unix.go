//go:build unix

package transport

import (
	"os/exec"
	"syscall"
)

// isolate puts a plugin into a process group of its own, so that an interrupt typed at
// the terminal reaches the host alone, which decides.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
