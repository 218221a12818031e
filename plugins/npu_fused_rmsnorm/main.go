// Npu_fused_rmsnorm is a kernel plugin for the ops rms_norm and add_rms_norm. Package
// rmsnorm is the kernel.
package main

import (
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/npu_fused_rmsnorm/rmsnorm"
)

func main() {
	plugin.Serve(rmsnorm.Name, rmsnorm.Version, new(rmsnorm.Kernel), &rmsnorm.Kernel{Add: true})
}
