package transport_test

import (
	"context"
	"fmt"
	"log"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/transport"
)

// The main function of a plugin.
func ExampleServe() {
	transport.Serve("my_rmsnorm", "1.0.0", reference.Kernel(core.RMSNorm))
}

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
