package checkpoint

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// rename tries again for a while where somebody has a file open, which the system does not replace then: another run
// that reads it, or a scanner of viruses.
func rename(from, to string) error {
	const patience = 2 * time.Second
	limit := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause *= 2 {
		err := os.Rename(from, to)
		isOpen := errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
		if !isOpen || time.Now().After(limit) {
			return err
		}
		time.Sleep(pause)
	}
}
