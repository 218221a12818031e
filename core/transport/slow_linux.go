package transport

import (
	"bytes"
	"fmt"
	"os"
)

// isStopped reports whether a process was stopped by a signal, or by who traces it.
func isStopped(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// "pid (name) state ...", where a name may have anything in it; see proc(5).
	_, rest, _ := bytes.Cut(text[bytes.LastIndexByte(text, ')')+1:], []byte(" "))
	return len(rest) > 0 && (rest[0] == 'T' || rest[0] == 't')
}
