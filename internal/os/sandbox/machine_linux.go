package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// OwnMounts prepares a process that may change what is mounted where it sees it.
func OwnMounts(cmd *exec.Cmd) {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
}

// HideProc mounts an empty folder over /proc, in a process of OwnMounts.
func HideProc() error { return mountMemory("/proc", "") }

// LimitFolder mounts an empty file system over a folder that holds so many bytes, in a process of OwnMounts.
func LimitFolder(path string, bytes int64) error {
	return mountMemory(path, fmt.Sprintf("size=%d", bytes))
}

func mountMemory(path, options string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("sandbox: keep mounts to this process: %w", err)
	}
	if err := syscall.Mount("none", path, "tmpfs", 0, options); err != nil {
		return fmt.Errorf("sandbox: mount over %s: %w", path, err)
	}
	return nil
}

// LimitFiles limits the open files of this process and of those that it starts.
func LimitFiles(n uint64) error { return limit(syscall.RLIMIT_NOFILE, n) }

// LimitAddresses limits their address space, in bytes each.
func LimitAddresses(bytes uint64) error { return limit(syscall.RLIMIT_AS, bytes) }

func limit(what int, n uint64) error {
	if err := syscall.Setrlimit(what, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		return fmt.Errorf("sandbox: setrlimit: %w", err)
	}
	return nil
}
