//go:build !linux

package transport

const hasLimits = false

func (limits) memory(int) error { return nil }

func (limits) processors() (undo func() error, err error) {
	return func() error { return nil }, nil
}
