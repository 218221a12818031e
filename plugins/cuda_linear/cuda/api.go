package cuda

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"github.com/seed98097648/tune/internal/os/dynlib"
)

// The environment variables that name the libraries to load, each a path, or what the system's loader finds by
// its name: CUDA's driver, and cuBLAS.
const (
	EnvDriver = "TUNE_CUDA"
	EnvBLAS   = "TUNE_CUBLAS"
)

// drivers and cublas are the names of the libraries, the newest first, by the system.
var (
	drivers = map[string][]string{"linux": {"libcuda.so.1", "libcuda.so"}, "windows": {"nvcuda.dll"}}
	cublas  = map[string][]string{
		"linux": {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so",
			"/usr/local/cuda/lib64/libcublas.so"},
		"windows": {"cublas64_13.dll", "cublas64_12.dll", "cublas64_11.dll"},
	}
)

// driver is what is called of CUDA's driver. All of it returns a CUresult.
type driver struct {
	init, deviceCount, deviceGet, deviceName            dynlib.Func
	retain, setCurrent, memInfo, alloc, free, hostAlloc dynlib.Func
	streamCreate, streamSync, streamWait                dynlib.Func
	eventCreate, eventRecord, eventSync                 dynlib.Func
	toDevice, toHost, errorName, errorText              dynlib.Func
}

func (d *driver) find(lib *dynlib.Library) (*driver, error) {
	return d, find(lib, "CUDA driver", map[string]*dynlib.Func{
		"cuInit": &d.init, "cuDeviceGetCount": &d.deviceCount, "cuDeviceGet": &d.deviceGet,
		"cuDeviceGetName":          &d.deviceName,
		"cuDevicePrimaryCtxRetain": &d.retain, "cuCtxSetCurrent": &d.setCurrent, "cuMemGetInfo_v2": &d.memInfo,
		"cuMemAlloc_v2": &d.alloc, "cuMemFree_v2": &d.free, "cuMemHostAlloc": &d.hostAlloc,
		"cuStreamCreate": &d.streamCreate, "cuStreamSynchronize": &d.streamSync, "cuStreamWaitEvent": &d.streamWait,
		"cuEventCreate": &d.eventCreate, "cuEventRecord": &d.eventRecord, "cuEventSynchronize": &d.eventSync,
		"cuMemcpyHtoDAsync_v2": &d.toDevice, "cuMemcpyDtoHAsync_v2": &d.toHost,
		"cuGetErrorName": &d.errorName, "cuGetErrorString": &d.errorText,
	})
}

// outOfMemory is the CUresult of a device without room.
const outOfMemory = 2

// check makes an error of a CUresult.
func (d *driver) check(call string, result uintptr) error {
	if uint32(result) == 0 {
		return nil
	}
	var name, text uintptr
	d.errorName.Call(result, uintptr(unsafe.Pointer(&name)))
	d.errorText.Call(result, uintptr(unsafe.Pointer(&text)))
	return fmt.Errorf("%s: %s (%d): %s", call, dynlib.Text(name), uint32(result), dynlib.Text(text))
}

// blas is what is called of cuBLAS. All of it returns a cublasStatus_t.
type blas struct{ create, property, setStream, sgemm dynlib.Func }

func (b *blas) find(lib *dynlib.Library) (*blas, error) {
	return b, find(lib, "cuBLAS", map[string]*dynlib.Func{
		"cublasCreate_v2": &b.create, "cublasGetProperty": &b.property, "cublasSetStream_v2": &b.setStream,
		"cublasSgemm_v2": &b.sgemm,
	})
}

func (b *blas) check(call string, status uintptr) error {
	if uint32(status) == 0 {
		return nil
	}
	return fmt.Errorf("%s: status %d", call, uint32(status))
}

// version returns that of the library, as 13.1.0.
func (b *blas) version() string {
	var parts [3]int32 // major, minor, patch
	for i := range parts {
		b.property.Call(uintptr(i), uintptr(unsafe.Pointer(&parts[i])))
	}
	return fmt.Sprintf("%d.%d.%d", parts[0], parts[1], parts[2])
}

// find looks for all of the names.
func find(lib *dynlib.Library, what string, names map[string]*dynlib.Func) error {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		f := names[name]
		if *f = lib.Func(name); *f == 0 {
			return fmt.Errorf("%s has no %s: it is no %s that this can use", lib.Path, name, what)
		}
	}
	return nil
}

// load opens both libraries.
func load() (*driver, *blas, error) {
	if drivers[runtime.GOOS] == nil && os.Getenv(EnvDriver) == "" {
		return nil, nil, errors.New("there is no CUDA for this operating system")
	}
	d, err := dynlib.Choose(EnvDriver, drivers[runtime.GOOS],
		"no CUDA driver was found; install NVIDIA's, of version 11 or later", new(driver).find)
	if err != nil {
		return nil, nil, err
	}
	b, err := dynlib.Choose(EnvBLAS, cublas[runtime.GOOS],
		"no cuBLAS was found; install that of CUDA 11, 12 or 13, such as NVIDIA's package libcublas", new(blas).find)
	return d, b, err
}
