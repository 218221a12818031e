package plugin

import "os"

// takeStdout returns standard output, for the handshake, and has all else that is printed there in Go go to standard
// error.
func takeStdout() *os.File {
	kept := os.Stdout
	os.Stdout = os.Stderr
	return kept
}
