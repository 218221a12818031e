//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notice is the system's struct seccomp_notif: a call that is about to be made, and waits.
type notice struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	at         uint64
	args       [6]uint64
}

// reply is its struct seccomp_notif_resp.
type reply struct {
	id    uint64
	value int64
	error int32 // negative
	flags uint32
}

// Saves runs f on a thread of its own, and tells call what that has the system do for files to be there after a loss
// of power: "sync FILE", "rename OLD NEW", "link OLD NEW" and "remove FILE". An error of call's is that of the system.
func Saves(f func(), call func(what string) syscall.Errno) error {
	var calls []Call
	for _, number := range []uint32{unix.SYS_FSYNC, unix.SYS_RENAMEAT, unix.SYS_LINKAT, unix.SYS_UNLINKAT} {
		calls = append(calls, Call{number, -1, 0})
	}
	type listener struct {
		fd  uintptr
		err error
	}
	listeners, done := make(chan listener), make(chan struct{})
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its filter
		fd, err := install(unix.SECCOMP_RET_USER_NOTIF, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, calls)
		listeners <- listener{fd, err}
		if err == nil {
			defer unix.Fsync(-1) // which tells of the end
			defer close(done)
			f()
		}
	}()
	l := <-listeners
	if l.err != nil {
		return l.err
	}
	defer unix.Close(int(l.fd))
	for {
		var n notice
		err := ioctl(l.fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
			continue // a signal has interrupted the call, which is made again
		}
		if err != nil {
			return err
		}
		what, err := n.describe()
		answer := reply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if err == nil && what != "" {
			if e := call(what); e != 0 {
				answer.error, answer.flags = -int32(e), 0
			}
		}
		if sent := ioctl(l.fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer)); errors.Is(sent, unix.ENOENT) {
			continue // likewise: call hears of it twice
		} else if sent != nil {
			return sent
		}
		if err != nil {
			return err
		}
		if what == "" {
			<-done
			return nil
		}
	}
}

func ioctl(fd, request uintptr, arg unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(arg)); e != 0 {
		return os.NewSyscallError("ioctl", e)
	}
	return nil
}

// describe returns nothing at the end.
func (n *notice) describe() (string, error) {
	switch n.number {
	case unix.SYS_FSYNC:
		if int32(n.args[0]) < 0 {
			return "", nil
		}
		name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", n.args[0]))
		return "sync " + name, err
	case unix.SYS_UNLINKAT:
		name, err := textAt(n.args[1])
		return "remove " + name, err
	}
	from, err1 := textAt(n.args[1])
	to, err2 := textAt(n.args[3])
	what := "rename "
	if n.number == unix.SYS_LINKAT {
		what = "link "
	}
	return what + from + " " + to, errors.Join(err1, err2)
}

// textAt reads the text that a call of this process points to.
func textAt(address uint64) (string, error) {
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return "", err
	}
	defer memory.Close()
	var b [1 << 12]byte
	n, err := memory.ReadAt(b[:], int64(address)) // it may end soon after the text
	text, _, found := bytes.Cut(b[:n], []byte{0})
	if !found {
		return "", fmt.Errorf("sandbox: no text at %#x: %w", address, err)
	}
	return string(text), nil
}
