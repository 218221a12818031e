package checkpoint

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

func rename(from, to string) error { return patiently(func() error { return os.Rename(from, to) }) }

func remove(path string) error { return patiently(func() error { return os.Remove(path) }) }

// patiently tries again for a while where somebody has a file open, which the system neither replaces nor removes
// then: another run that reads it, or a scanner of viruses.
func patiently(try func() error) error {
	const patience = 2 * time.Second
	limit := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause *= 2 {
		err := try()
		isOpen := errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
		if !isOpen || time.Now().After(limit) {
			return err
		}
		time.Sleep(pause)
	}
}
