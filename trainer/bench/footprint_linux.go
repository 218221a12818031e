package bench

import (
	"os"
	"runtime/debug"

	"github.com/seed98097648/tune/internal/os/memory"
)

// footprint returns the bytes of memory that this process and its descendants, the
// plugins, have in use after a garbage collection, pages that they share counted once;
// 0 if any of them cannot be read.
func footprint() int64 {
	debug.FreeOSMemory()
	return memory.OfFamily(os.Getpid())
}
