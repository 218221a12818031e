package shm

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Anonymous says why memory without a file cannot be shared here, nil if it can. Old
// kernels lack it, sandboxes refuse it, and without /proc a descriptor cannot be opened
// again for reading only.
var Anonymous = sync.OnceValue(func() error {
	f, err := anonymousFile("probe", 1)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := seal(f, HostOnly); err != nil {
		return fmt.Errorf("shm: %w", err)
	}
	again, err := os.Open(descriptorPath(f))
	if err != nil {
		return fmt.Errorf("shm: memory cannot be opened again for reading only, which takes /proc: %w", err)
	}
	return again.Close()
})

// anonymousFile makes a sparse memfd. It takes no memory until it is touched.
func anonymousFile(name string, size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("tune-"+name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("shm: region %s: memfd_create: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), "memfd:tune-"+name)
	if err := f.Truncate(size); err != nil {
		f.Close()
		return nil, fmt.Errorf("shm: region %s: reserve %d bytes: %w", name, size, err)
	}
	return f, nil
}

// seal fixes the size of an anonymous file and, for HostOnly, forbids every writable
// mapping and every write from now on; the mapping made before stays writable. Where
// the latter is unknown (Linux before 5.1, some sandboxes), descriptors from ReadOnly
// are still refused all writing.
func seal(f *os.File, kind Kind) error {
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	if kind == HostOnly {
		_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals|unix.F_SEAL_FUTURE_WRITE)
		if !errors.Is(err, unix.EINVAL) {
			return os.NewSyscallError("seal", err)
		}
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	return os.NewSyscallError("seal", err)
}

// descriptorPath names an open file of this process.
func descriptorPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// ReadOnly opens the region's file again, for reading only. Pass this descriptor to a
// process that must not write to a Shared region.
func (r *Region) ReadOnly() (*os.File, error) {
	f, err := os.Open(descriptorPath(r.file))
	if err != nil {
		return nil, fmt.Errorf("shm: region %s: %w", r.name, err)
	}
	return f, nil
}
