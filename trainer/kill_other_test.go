//go:build !linux

package trainer_test

import "time"

// killPlugins does nothing here: finding the plugins' processes needs /proc. The test
// that uses it is skipped.
func killPlugins(string, time.Duration, func() uint64) (stop func()) { return func() {} }
