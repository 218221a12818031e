package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

// TestVerifySaysWhatASlowKernelIsAt: the notes name the kernel, the kind of case and how
// many there are.
func TestVerifySaysWhatASlowKernelIsAt(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	on, stop := (&app{stderr: w}).tellOfCases("slow: rope", time.Millisecond)
	on("large positions", 7, 90)
	b := make([]byte, 1024)
	want := "tune: verifying slow: rope: large positions, case 7 of 90\n"
	for text := ""; !strings.Contains(text, want); {
		n, err := r.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		text += string(b[:n])
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	stop()
	w.Close()
}
