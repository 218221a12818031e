//go:build !linux

package shm

import (
	"errors"
	"os"
)

const hasAnonymous = false

func anonymousFile(string, int64) (*os.File, error) { return nil, errors.ErrUnsupported }

func seal(*os.File, Kind) error { return nil }

func descriptorPath(*os.File) string { return "" }
