package transport

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// lifeline is a job of Windows: a plugin and what it has started end when nobody has the job open any more. No
// descriptor can be inherited, so a plugin waits for the host's process, too, and the host asks go-plugin whether the
// plugin's has ended.
type lifeline struct {
	gone chan struct{}
	job  windows.Handle
}

func newLifeline() (*lifeline, *os.File, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, nil, os.NewSyscallError("CreateJobObject", err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("SetInformationJobObject", err), windows.CloseHandle(job))
	}
	return &lifeline{job: job}, nil, nil
}

// hold takes a process that has just started, and what it will start. One that cannot be taken has ended already, or
// the system lets it be in no other job.
func (l *lifeline) hold(p *os.Process) {
	_ = p.WithHandle(func(handle uintptr) {
		_ = windows.AssignProcessToJobObject(l.job, windows.Handle(handle))
	})
}

func (l *lifeline) close() error { return windows.CloseHandle(l.job) }

func extraFiles(*os.File, *os.File) []*os.File { return nil }

// keepDescriptors has nothing to do: a process inherits the handles that it is given.
func keepDescriptors() {}

// isolate keeps an interrupt typed at the terminal from a plugin: it reaches the host alone, which decides.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
