// Npu_fused_shared_expert is a kernel plugin for the op shared_expert_ffn. Package sharedexpert is the kernel.
package main

import (
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/npu_fused_shared_expert/sharedexpert"
)

func main() { plugin.Serve(sharedexpert.Name, sharedexpert.Version, new(sharedexpert.Kernel)) }
