package plugin_test

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/core/reference"
)

// The main function of a plugin.
func ExampleServe() {
	plugin.Serve("my_rmsnorm", "1.0.0", reference.Kernel(core.RMSNorm))
}
