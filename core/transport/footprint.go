package transport

import (
	"fmt"

	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/memory"
)

var _ kerneltest.Footprint = (*kernel)(nil)

// Footprint implements kerneltest.Footprint: the memory of the plugin's process, which
// all kernels of the plugin share. It is an error while there is no process.
func (k *kernel) Footprint() (int64, error) {
	k.plugin.mu.Lock()
	defer k.plugin.mu.Unlock()
	if k.plugin.proc == nil {
		return 0, fmt.Errorf("transport: plugin %s has no process now", k.plugin.manifest.Name)
	}
	return memory.OfProcess(k.plugin.proc.cmd.Process.Pid)
}
