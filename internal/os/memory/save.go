package memory

import (
	"os"
	"runtime/debug"
)

// garbage is how large the garbage of a process may be, in percent of what is in use.
const garbage = 20

// Save has garbage collected early in a process most of whose heap stays: collecting that is cheap, and memory is not.
// Who sets GOGC has it as that says.
func Save() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}
