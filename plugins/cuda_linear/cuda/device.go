// Package cuda multiplies matrices on an NVIDIA device, with CUDA's driver and cuBLAS, which it loads while the
// program runs: nothing is linked, and nothing is compiled for the device. It knows the interfaces of CUDA 11 to 13.
//
// Matrices are float32 and row-major, and so are sums: cuBLAS adds in float32 unless it is told otherwise, which
// nobody does here. The same products give the same bits on the same device: all run in one stream, in order.
package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/seed98097648/tune/core/vector"
)

// Device is the first device that CUDA shows, in this process; $CUDA_VISIBLE_DEVICES chooses another. It stays until
// the process ends. Nothing of its memory is taken before the first call of Do.
type Device struct {
	Name    string // as "NVIDIA H100 80GB HBM3"
	Version string // of cuBLAS
	// Lost is called with the error of a pass, unless it is one of memory: after most of CUDA's errors a process cannot
	// use the device any more, and a plugin's is best ended, so that the host starts another and repeats the call. It
	// may be nil; Do returns the error in any case.
	Lost func(err error)

	*driver
	*blas
	device, context, handle uintptr
	up, run, down           uintptr    // streams: what is copied to the device, products, what is copied from it
	moved, multiplied       uintptr    // events: the last of up and of run
	slots                   chan *slot // those that no thread has

	mu      sync.Mutex // one pass at a time
	started bool
	passes  uint64
	spare   map[int][]uintptr // memory that nobody uses, by its size
	kept    map[uintptr]*kept
}

// Open loads the libraries that $TUNE_CUDA and $TUNE_CUBLAS name, else those that the system has, and finds a device.
// The error of none says where it was looked for.
func Open() (*Device, error) {
	driver, blas, err := load()
	if err != nil {
		return nil, err
	}
	d := &Device{driver: driver, blas: blas, spare: map[int][]uintptr{}, kept: map[uintptr]*kept{}}
	if err := driver.check("cuInit", d.init.Call(0)); err != nil {
		return nil, fmt.Errorf("CUDA finds no device: %w", err)
	}
	var count, device int32
	if err := driver.check("cuDeviceGetCount", d.deviceCount.Call(uintptr(unsafe.Pointer(&count)))); err != nil {
		return nil, err
	}
	if count == 0 {
		return nil, fmt.Errorf("CUDA shows no device; $CUDA_VISIBLE_DEVICES may hide it")
	}
	if err := driver.check("cuDeviceGet", d.deviceGet.Call(uintptr(unsafe.Pointer(&device)), 0)); err != nil {
		return nil, err
	}
	d.device = uintptr(device)
	name := make([]byte, 128)
	result := d.deviceName.Call(uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), d.device)
	if err := driver.check("cuDeviceGetName", result); err != nil {
		return nil, err
	}
	text, _, _ := strings.Cut(string(name), "\x00")
	d.Name, d.Version = text, blas.version()
	return d, nil
}

// String describes the device in a line.
func (d *Device) String() string { return fmt.Sprintf("cuBLAS %s on %s", d.Version, d.Name) }

// start makes what all passes have in common, up to the first error.
func (d *Device) start() error {
	const nonBlocking, noTiming = 1, 2
	elems := slotsEach * vector.Threads() * pieceElems
	d.slots = make(chan *slot, elems/pieceElems)
	var memory uintptr
	var f failure
	driver := func(call string, result func() uintptr) {
		if f.err == nil {
			f.add(d.driver.check(call, result()))
		}
	}
	event := func(e *uintptr) {
		driver("cuEventCreate", func() uintptr { return d.eventCreate.Call(uintptr(unsafe.Pointer(e)), noTiming) })
	}
	driver("cuDevicePrimaryCtxRetain", func() uintptr {
		return d.retain.Call(uintptr(unsafe.Pointer(&d.context)), d.device)
	})
	driver("cuCtxSetCurrent", func() uintptr { return d.setCurrent.Call(d.context) })
	for _, s := range []*uintptr{&d.up, &d.run, &d.down} {
		driver("cuStreamCreate", func() uintptr { return d.streamCreate.Call(uintptr(unsafe.Pointer(s)), nonBlocking) })
	}
	event(&d.moved)
	event(&d.multiplied)
	driver("cuMemHostAlloc", func() uintptr {
		return d.hostAlloc.Call(uintptr(unsafe.Pointer(&memory)), uintptr(elems)*float32Bytes, 0)
	})
	for i := 0; i < elems && f.err == nil; i += pieceElems {
		all := unsafe.Slice((*float32)(*(*unsafe.Pointer)(unsafe.Pointer(&memory))), elems)
		s := &slot{memory: all[i:][:pieceElems]}
		event(&s.done)
		d.slots <- s
	}
	if f.err == nil {
		f.add(d.blas.check("cublasCreate", d.create.Call(uintptr(unsafe.Pointer(&d.handle)))))
	}
	if f.err == nil {
		f.add(d.blas.check("cublasSetStream", d.setStream.Call(d.handle, d.run)))
	}
	return f.err
}

// Do runs the work of a call, and returns when all of it is done and its memory given back. The first error of the
// pass is that of the call; what comes after it does nothing.
func (d *Device) Do(work func(p *Pass)) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	runtime.LockOSThread() // the current context is a thread's
	defer runtime.UnlockOSThread()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", d, err)
			if d.Lost != nil && !errors.Is(err, errMemory) {
				d.Lost(err)
			}
		}
	}()
	if !d.started {
		if err := d.start(); err != nil {
			return err
		}
		d.started = true
	}
	d.passes++
	p := &Pass{Device: d}
	p.check("cuCtxSetCurrent", d.setCurrent.Call(d.context))
	done := false
	defer func() {
		if !done { // a panic, which a plugin's process outlives
			p.add(errors.New("the work ended early"))
			p.end()
		}
	}()
	work(p)
	p.Flush()
	p.end()
	done = true
	return p.Err()
}
