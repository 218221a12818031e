package transport_test

import (
	"context"
	"fmt"
	"log"

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
