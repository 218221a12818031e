package memory

import (
	"os"
	"runtime/debug"
)

// How large the garbage of a process may be, in percent of what is in use.
const (
	saved = 20
	spent = 400
)

// Save has garbage collected early in a process most of whose heap stays: collecting that is cheap, and memory is not.
// Who sets GOGC has it as that says.
func Save() { collectAt(saved) }

// Spend has garbage collected late in a process that makes much and keeps little, as one that verifies kernels does: a
// third of its time would go into collecting. Who sets GOGC has it as that says.
func Spend() { collectAt(spent) }

func collectAt(garbage int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}
