package distributed

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/seed98097648/tune/internal/os/dynlib"
)

// EnvLibrary names the environment variable that names the MPI to load: a path, or what the system's loader finds by
// its name.
const EnvLibrary = "TUNE_MPI"

// handle is an object of MPI: the address of an exported object in Open MPI, an int in MPICH.
type handle uintptr

// mpi is a loaded MPI. Its methods are for one thread, that which has called init.
type mpi struct {
	path, version string
	world, bytes  handle
	errorsReturn  handle
	statusIgnore  uintptr

	initThread, finalize, abort, commRank, commSize, commSplit, setErrhandler dynlib.Func
	errorString, libraryVersion, ialltoallv, iallgatherv, test                dynlib.Func
}

// openMPI loads the MPI that belongs to the launcher.
func openMPI(l Launch) (*mpi, error) {
	ours, theirs := []string{"libmpi.so.40"}, []string{"libmpich.so.12", "libmpi.so.12"}
	candidates := append(ours, theirs...)
	if l.By == "Hydra" {
		candidates = append(theirs, ours...)
	}
	// UCX, which MPICH mostly stands on, would take SIGSEGV from Go, which makes an error of it.
	if _, set := os.LookupEnv("UCX_ERROR_SIGNALS"); !set {
		os.Setenv("UCX_ERROR_SIGNALS", "") // fails for no such name or value
	}
	return dynlib.Choose(EnvLibrary, candidates, "distributed: no MPI was found; install the one that has started this "+
		"process, such as Debian's libopenmpi3 or libmpich12", identify)
}

// identify finds the functions, and which of the two ABIs it is.
func identify(lib *dynlib.Library) (*mpi, error) {
	m := &mpi{path: lib.Path}
	for name, f := range map[string]*dynlib.Func{
		"Init_thread": &m.initThread, "Finalize": &m.finalize, "Abort": &m.abort, "Comm_rank": &m.commRank,
		"Comm_size": &m.commSize, "Comm_split": &m.commSplit,
		"Comm_set_errhandler": &m.setErrhandler, "Error_string": &m.errorString,
		"Get_library_version": &m.libraryVersion, "Ialltoallv": &m.ialltoallv, "Iallgatherv": &m.iallgatherv,
		"Test": &m.test,
	} {
		if *f = lib.Func("MPI_" + name); *f == 0 {
			return nil, fmt.Errorf("%s has no MPI_%s: it is no MPI 3", lib.Path, name)
		}
	}
	text, n := make([]byte, 8192), int32(0) // as much as MPICH writes; Open MPI: 256
	m.libraryVersion.Call(uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&n)))
	m.version, _, _ = strings.Cut(strings.TrimRight(string(text[:n]), "\x00\n"), "\n")
	object := func(name string) handle { return handle(lib.Func("ompi_mpi_" + name)) }
	switch {
	case object("comm_world") != 0:
		m.world, m.bytes, m.errorsReturn = object("comm_world"), object("byte"), object("errors_return")
		m.version, _, _ = strings.Cut(m.version, ",")
	case hasAny(m.version, "MPICH", "Intel(R) MPI", "MVAPICH"):
		m.world, m.bytes, m.errorsReturn, m.statusIgnore = 0x44000000, 0x4c00010d, 0x54000001, 1
		m.version = strings.Join(strings.Fields(m.version), " ")
	default:
		return nil, fmt.Errorf("%s is an MPI of unknown ABI, %.60q; Open MPI, MPICH, Intel MPI and MVAPICH are known",
			lib.Path, m.version)
	}
	return m, nil
}

func hasAny(s string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// check makes an error of what a function returns.
func (m *mpi) check(what string, rc uintptr) error {
	if int32(rc) == 0 {
		return nil
	}
	text, n := make([]byte, 512), int32(0)
	m.errorString.Call(rc, uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&n)))
	return fmt.Errorf("MPI_%s: %s", what, strings.TrimSpace(string(text[:n])))
}

// join makes the process a part of the job. All later calls are the calling thread's.
func (m *mpi) join() (rank, size int, err error) {
	const funneled = 1
	var provided, r, n int32
	if err := m.check("Init_thread", m.initThread.Call(0, 0, funneled, uintptr(unsafe.Pointer(&provided)))); err != nil {
		return 0, 0, err
	}
	if err := m.check("Comm_rank", m.commRank.Call(uintptr(m.world), uintptr(unsafe.Pointer(&r)))); err != nil {
		return 0, 0, err
	}
	err = m.check("Comm_size", m.commSize.Call(uintptr(m.world), uintptr(unsafe.Pointer(&n))))
	return int(r), int(n), err
}

// split implements link.
func (m *mpi) split(colour, key int) (comm, error) {
	var h uint64 // MPICH writes 4 bytes, the lower ones
	err := m.check("Comm_split", m.commSplit.Call(uintptr(m.world), uintptr(colour), uintptr(key),
		uintptr(unsafe.Pointer(&h))))
	if err != nil {
		return nil, err
	}
	err = m.check("Comm_set_errhandler", m.setErrhandler.Call(uintptr(h), uintptr(m.errorsReturn)))
	return &communicator{m, handle(h)}, err
}

// leave implements link.
func (m *mpi) leave() error { return m.check("Finalize", m.finalize.Call()) }

// kill implements link.
func (m *mpi) kill(code int) { m.abort.Call(uintptr(m.world), uintptr(code)) }

// communicator is a comm of MPI.
type communicator struct {
	mpi    *mpi
	handle handle
}

// request is a collective under way, and what it reads and writes meanwhile.
type request struct {
	mpi          *mpi
	handle       uint64
	done         int32
	send, recv   []byte
	sends, recvs *parts
}

// address of what may be empty.
func address(b []byte) unsafe.Pointer {
	if len(b) == 0 {
		return unsafe.Pointer(new(uint64))
	}
	return unsafe.Pointer(&b[0])
}

// alltoall implements comm.
func (c *communicator) alltoall(send []byte, sends *parts, recv []byte, recvs *parts) (pending, error) {
	m, r := c.mpi, &request{mpi: c.mpi, send: send, recv: recv, sends: sends, recvs: recvs}
	return r, m.check("Ialltoallv", m.ialltoallv.Call(uintptr(address(send)), uintptr(unsafe.Pointer(&sends.counts[0])),
		uintptr(unsafe.Pointer(&sends.offsets[0])), uintptr(m.bytes), uintptr(address(recv)),
		uintptr(unsafe.Pointer(&recvs.counts[0])), uintptr(unsafe.Pointer(&recvs.offsets[0])), uintptr(m.bytes),
		uintptr(c.handle), uintptr(unsafe.Pointer(&r.handle))))
}

// allgather implements comm.
func (c *communicator) allgather(send, recv []byte, recvs *parts) (pending, error) {
	m, r := c.mpi, &request{mpi: c.mpi, send: send, recv: recv, recvs: recvs}
	return r, m.check("Iallgatherv", m.iallgatherv.Call(uintptr(address(send)), uintptr(len(send)), uintptr(m.bytes),
		uintptr(address(recv)), uintptr(unsafe.Pointer(&recvs.counts[0])), uintptr(unsafe.Pointer(&recvs.offsets[0])),
		uintptr(m.bytes), uintptr(c.handle), uintptr(unsafe.Pointer(&r.handle))))
}

// finished implements pending.
func (r *request) finished() (bool, error) {
	err := r.mpi.check("Test", r.mpi.test.Call(uintptr(unsafe.Pointer(&r.handle)), uintptr(unsafe.Pointer(&r.done)),
		r.mpi.statusIgnore))
	return r.done != 0, err
}
