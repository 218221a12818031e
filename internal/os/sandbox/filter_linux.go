//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is a system call, or one use of it.
type Call struct {
	number uint32
	arg    int    // the number of an argument that tells the use; -1 for every use
	value  uint32 // that it has then
}

// The calls that only Linux has, and that the transport or what it stands on makes there.
var (
	MemfdCreate      = Call{unix.SYS_MEMFD_CREATE, -1, 0}
	Fallocate        = Call{unix.SYS_FALLOCATE, -1, 0}
	AddSeals         = Call{unix.SYS_FCNTL, 1, unix.F_ADD_SEALS}
	SetLease         = Call{unix.SYS_FCNTL, 1, unix.F_SETLEASE}
	Prctl            = Call{unix.SYS_PRCTL, -1, 0}
	SetDeathSignal   = Call{unix.SYS_PRCTL, 0, unix.PR_SET_PDEATHSIG}
	SetTimerSlack    = Call{unix.SYS_PRCTL, 0, unix.PR_SET_TIMERSLACK}
	SchedSetaffinity = Call{unix.SYS_SCHED_SETAFFINITY, -1, 0}
	SharedFutexWait  = Call{unix.SYS_FUTEX, 1, 0} // Go's own are private to the process
	SharedFutexWake  = Call{unix.SYS_FUTEX, 1, 1}
)

// Refuse lets the calls fail with the error, in this process and all that it starts, until
// they end.
func Refuse(with syscall.Errno, calls ...Call) error {
	_, err := install(unix.SECCOMP_RET_ERRNO|uint32(with), unix.SECCOMP_FILTER_FLAG_TSYNC, calls)
	return err
}

// Kill is like Refuse, and ends the process that makes one of the calls with SIGSYS.
func Kill(calls ...Call) error {
	_, err := install(unix.SECCOMP_RET_KILL_PROCESS, unix.SECCOMP_FILTER_FLAG_TSYNC, calls)
	return err
}

// arch is how filters call this processor.
var arch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]

// Offsets in the data that a filter sees; see seccomp(2).
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16 // 8 bytes each, the low half first
)

// filter returns the program that answers the calls with the action.
func filter(action uint32, calls []Call) []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	skipUnless := func(value uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: skip}
	}
	answer := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	program := []unix.SockFilter{load(offArch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: arch, Jt: 1}, answer(unix.SECCOMP_RET_ALLOW)}
	for _, c := range calls {
		program = append(program, load(offNumber))
		if c.arg < 0 {
			program = append(program, skipUnless(c.number, 1), answer(action))
			continue
		}
		program = append(program, skipUnless(c.number, 3), load(offArgs+8*uint32(c.arg)), skipUnless(c.value, 1),
			answer(action))
	}
	return append(program, answer(unix.SECCOMP_RET_ALLOW))
}

// install returns what the system does: with a flag for it, a file that tells of calls.
func install(action uint32, flags uintptr, calls []Call) (listener uintptr, err error) {
	program := filter(action, calls)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, os.NewSyscallError("prctl", err)
	}
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	listener, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&f)))
	if e != 0 {
		return 0, fmt.Errorf("sandbox: seccomp: %w", e)
	}
	return listener, nil
}
