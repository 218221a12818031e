package patient

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// Rename is os.Rename.
func Rename(from, to string) error { return try(func() error { return os.Rename(from, to) }) }

// Remove is os.Remove.
func Remove(path string) error { return try(func() error { return os.Remove(path) }) }

func try(do func() error) error {
	const patience = 2 * time.Second
	limit := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause *= 2 {
		err := do()
		isOpen := errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
		if !isOpen || time.Now().After(limit) {
			return err
		}
		time.Sleep(pause)
	}
}
