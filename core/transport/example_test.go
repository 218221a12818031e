package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
)

// A host that opens one plugin and runs nothing yet.
func ExampleOptions_Open() {
	o := transport.Options{Threads: 4, Strict: true}
	p, err := o.Open(context.Background(), "bin/plugins/my_rmsnorm")
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	for _, k := range p.Kernels() {
		fmt.Println(k.Info().Op)
	}
}

// Tensors in this memory are read by plugins where they are.
func ExampleNewMemory() {
	mem, err := transport.NewMemory("tensors", 0)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	x, err := core.NewTensorIn(mem, core.Float32, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Free(x.Data)
	x.Float32s()[0] = 1
	fmt.Println(x.Shape, x.Float32s())
	// Output: [2 3] [1 0 0 0 0 0]
}

// The folders for core.ScanAllKernels: the usual ones that there are, or the one that is
// named, which must be there.
func ExampleFolders() {
	reg, err := core.ScanAllKernels(context.Background(), transport.Folders("no/such/folder"), transport.Open)
	fmt.Println(reg == nil, errors.Is(err, fs.ErrNotExist))
	// Output: true true
}
