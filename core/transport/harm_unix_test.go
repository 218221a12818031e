//go:build unix

package transport

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// fillMemory takes memory until there is none, which on Linux a limit sees to soon.
func fillMemory() {
	limit := unix.Rlimit{Cur: 64 << 20, Max: 64 << 20}
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		panic(err)
	}
	for n := 1; ; n *= 2 {
		copy(bytes.Repeat([]byte{1}, n<<20), "used")
	}
}

// startChild starts a process that has this one's output open and lives for long. Its
// number is left in a file. A daemon leaves the process group.
func startChild(daemon bool) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	pid, err := syscall.ForkExec(self, []string{"child"},
		&syscall.ProcAttr{Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: daemon}})
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(os.Getenv(countDir)+"/pid", []byte(strconv.Itoa(pid)), 0o600); err != nil {
		panic(err)
	}
}

// TestCloseEndsAHungPlugin: one that is stopped, and one that does not return when the
// host says so.
func TestCloseEndsAHungPlugin(t *testing.T) {
	for name, role := range map[string]string{"stopped": "plugin", "stays": "stays"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := openRole(t, role, quiet(Options{}))
			pid := p.pid()
			if role == "plugin" {
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d is still there: %v", pid, err)
			}
			if stayed, known := Stayed(p.plugin), p.opts.how.doorbell != nil; role == "stays" && stayed != known {
				t.Errorf("it stayed: %v, want %v", stayed, known)
			}
		})
	}
}
