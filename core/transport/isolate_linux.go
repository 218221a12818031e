package transport

import (
	"os/exec"
	"syscall"
)

// isolate puts a plugin into a process group of its own, so that an interrupt typed at
// the terminal reaches the host alone, which decides; and has the operating system end
// the plugin when the thread that started it does, should the plugin be too busy to
// notice. See process.start.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
