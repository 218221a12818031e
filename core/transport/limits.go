package transport

import (
	"errors"
	"fmt"
)

// limits bound what a plugin's process may use. They are set by the host, against
// mistakes: a process can leave its processors for others, and get memory of kinds that
// its limit does not count.
type limits struct {
	bytes int64 // of private memory, 0 for no limit
	cpus  int   // 0 for all
}

func (o Options) limits() limits { return limits{bytes: o.MaxMemory, cpus: o.MaxCPUs} }

// errNoLimits is the answer where the operating system cannot limit another process.
var errNoLimits = fmt.Errorf("the memory and processors of a plugin can be limited on Linux only; go on without transport.Options.MaxMemory and transport.Options.MaxCPUs: %w", errors.ErrUnsupported)

// CheckLimits reports limits that cannot be set, as opening a plugin would.
func (o Options) CheckLimits() error {
	switch l := o.limits(); {
	case l.bytes < 0 || l.cpus < 0:
		return fmt.Errorf("transport: limits of a plugin: %d bytes and %d processors must not be negative", l.bytes, l.cpus)
	case l != limits{} && !hasLimits:
		return fmt.Errorf("transport: %w", errNoLimits)
	}
	return nil
}
