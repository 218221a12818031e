//go:build linux

package sandbox

import "golang.org/x/sys/unix"

// arch is how filters call this processor.
const arch = unix.AUDIT_ARCH_AARCH64
