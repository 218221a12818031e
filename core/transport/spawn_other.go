//go:build !linux

package transport

import "os/exec"

// awaitEnd waits until the process has ended, and ends the rest of its process group,
// where there are such groups.
func awaitEnd(cmd *exec.Cmd) error {
	err := cmd.Wait()
	_ = cmd.Cancel() // nobody may be left
	return err
}
