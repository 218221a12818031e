package memory

import (
	"bytes"
	"os"
	"strconv"
)

// Process measures the memory of this process.
type Process struct {
	statm *os.File // nil if there is none
	buf   [128]byte
}

// NewProcess returns a Process. The caller closes it.
func NewProcess() *Process {
	f, _ := os.Open("/proc/self/statm")
	return &Process{statm: f}
}

// Resident returns the bytes that the process has in memory, those included that it shares
// with others; 0 if that is unknown. It costs a system call and no memory.
func (p *Process) Resident() int64 {
	n, _ := p.statm.ReadAt(p.buf[:], 0) // the end of the file is no error here, and no file is empty
	// "size resident shared ...", in pages; see proc(5).
	_, rest, _ := bytes.Cut(p.buf[:n], []byte(" "))
	pages, _, _ := bytes.Cut(rest, []byte(" "))
	count, err := strconv.ParseInt(string(pages), 10, 64)
	if err != nil {
		return 0
	}
	return count * int64(os.Getpagesize())
}

// Close gives back what measuring takes.
func (p *Process) Close() error {
	if p.statm == nil {
		return nil
	}
	return p.statm.Close()
}
