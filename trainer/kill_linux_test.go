package trainer_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killPlugins sends SIGKILL to one running plugin of dir after the other, in turn, until
// stop is called. Between two of them the run makes some calls, as calls counts them:
// where the machine is so busy that a plugin takes longer to start than to be killed, it
// would be given up for dying again and again on one call.
func killPlugins(dir string, every time.Duration, calls func() uint64) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var next uint64
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(every):
			}
			now := calls()
			if now < next {
				continue
			}
			next = now + 2 // the one that may be at hand, and the start of another
			if pids := pluginPIDs(dir); len(pids) > 0 {
				syscall.Kill(pids[i%len(pids)], syscall.SIGKILL) // one that has just ended is no matter
			}
		}
	}()
	return func() { close(done); <-ended }
}

// pluginPIDs lists the processes that run an executable of dir and are our children.
func pluginPIDs(dir string) []int {
	var pids []int
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, l := range links {
		exe, err := os.Readlink(l)
		if err != nil || filepath.Dir(exe) != dir {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(l, "/")[2])
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			continue
		}
		// After the name in parentheses come the state and the parent.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			pids = append(pids, pid)
		}
	}
	return pids
}
