//go:build !linux

package shm

import (
	"errors"
	"os"
)

// Anonymous says that memory without a file cannot be shared here.
func Anonymous() error { return errors.ErrUnsupported }

func anonymousFile(string, int64) (*os.File, error) { return nil, errors.ErrUnsupported }

func seal(*os.File, Kind) error { return nil }
