package onednn

import (
	"runtime"
	"unsafe"

	"github.com/seed98097648/tune/internal/os/dynlib"
)

// api is what is called of the library.
type api struct {
	effectiveISA, setCache, engineCreate, streamCreate, streamWait  dynlib.Func
	memoryCreate, memoryDestroy, setHandle                          dynlib.Func
	descEqual, descSize                                             dynlib.Func
	attrCreate, setScratchpad, setPostOps                           dynlib.Func
	postOpsCreate, postOpsDestroy, appendSum                        dynlib.Func
	reorderCreate, query, descDestroy                               dynlib.Func
	primitiveCreate, primitiveDestroy, execute                      dynlib.Func
	byStrides, byTag, mdDestroy, matmulInit, matmulCreate, opCreate dynlib.Func

	// sum is appendSum, which takes a float. Version 2 does not look at what comes after it.
	sum func(postOps uintptr, scale float32, zero, dtype int32) int32
}

// find looks for all of it and returns the name of one that is missing. Descriptors are what differs: version 2
// writes them into the caller's memory, version 3 makes them; and version 2 has another between those of the
// tensors and that of the primitive.
func (a *api) find(lib *dynlib.Library, major int) (missing string) {
	names := map[string]*dynlib.Func{
		"dnnl_get_effective_cpu_isa":              &a.effectiveISA,
		"dnnl_set_primitive_cache_capacity":       &a.setCache,
		"dnnl_engine_create":                      &a.engineCreate,
		"dnnl_stream_create":                      &a.streamCreate,
		"dnnl_stream_wait":                        &a.streamWait,
		"dnnl_memory_create":                      &a.memoryCreate,
		"dnnl_memory_destroy":                     &a.memoryDestroy,
		"dnnl_memory_set_data_handle":             &a.setHandle,
		"dnnl_memory_desc_equal":                  &a.descEqual,
		"dnnl_memory_desc_get_size":               &a.descSize,
		"dnnl_primitive_attr_create":              &a.attrCreate,
		"dnnl_primitive_attr_set_scratchpad_mode": &a.setScratchpad,
		"dnnl_primitive_attr_set_post_ops":        &a.setPostOps,
		"dnnl_post_ops_create":                    &a.postOpsCreate,
		"dnnl_post_ops_destroy":                   &a.postOpsDestroy,
		"dnnl_post_ops_append_sum":                &a.appendSum,
		"dnnl_reorder_primitive_desc_create":      &a.reorderCreate,
		"dnnl_primitive_desc_query_md":            &a.query,
		"dnnl_primitive_desc_destroy":             &a.descDestroy,
		"dnnl_primitive_create":                   &a.primitiveCreate,
		"dnnl_primitive_destroy":                  &a.primitiveDestroy,
		"dnnl_primitive_execute":                  &a.execute,
	}
	if major == 2 {
		names["dnnl_memory_desc_init_by_strides"], names["dnnl_memory_desc_init_by_tag"] = &a.byStrides, &a.byTag
		names["dnnl_matmul_desc_init"], names["dnnl_primitive_desc_create"] = &a.matmulInit, &a.opCreate
	} else {
		names["dnnl_memory_desc_create_with_strides"], names["dnnl_memory_desc_create_with_tag"] = &a.byStrides, &a.byTag
		names["dnnl_memory_desc_destroy"], names["dnnl_matmul_primitive_desc_create"] = &a.mdDestroy, &a.matmulCreate
	}
	for name, f := range names {
		if *f = lib.Func(name); *f == 0 {
			missing = name
		}
	}
	if missing == "" {
		a.appendSum.Bind(&a.sum)
	}
	return missing
}

// dtype is a storage type, by the library's numbers.
type dtype uintptr

const (
	bfloat16 dtype = 2
	float32s dtype = 3
)

// desc is the descriptor of a tensor. Version 2 has it in this memory, version 3 a handle.
type desc struct {
	room *[1 << 7]uint64 // of version 2 it takes 696 bytes
	at   uintptr         // it, or the handle
}

// describe makes the descriptor of a matrix [rows, cols] with the distances between its rows and its columns;
// without strides, one that leaves it to the library how the matrix lies.
func (l *Library) describe(d dtype, rows, cols int, strides *[2]int64) (desc, error) {
	const axes, anyTag = 2, 1
	made, dims := desc{room: new([1 << 7]uint64)}, [2]int64{int64(rows), int64(cols)}
	var status uintptr
	if strides == nil {
		status = l.byTag.Call(uintptr(unsafe.Pointer(made.room)), axes, uintptr(unsafe.Pointer(&dims)), uintptr(d), anyTag)
	} else {
		status = l.byStrides.Call(uintptr(unsafe.Pointer(made.room)), axes, uintptr(unsafe.Pointer(&dims)), uintptr(d),
			uintptr(unsafe.Pointer(strides)))
	}
	made.at = uintptr(made.room[0])
	if l.mdDestroy == 0 {
		made.at = uintptr(unsafe.Pointer(made.room))
	}
	return made, l.done("a descriptor", status)
}

// forget frees a descriptor.
func (l *Library) forget(d desc) {
	if l.mdDestroy != 0 && d.at != 0 {
		l.mdDestroy.Call(d.at)
	}
	runtime.KeepAlive(d.room)
}
