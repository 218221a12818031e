//go:build solaris || aix || !(unix || windows)

package temp

import "os"

// lock knows nothing here: what is left behind stays.
func lock(*os.File) (ok, known bool) { return false, false }

// isOpen reports nothing: what is open can be removed.
func isOpen(error) bool { return false }
