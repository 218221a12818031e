// Npu_fused_paged_attention is a kernel plugin for the ops paged_attention and reshape_and_cache, which are attention
// over a paged cache and what writes it. Packages pagedattention and reshapecache are the kernels.
package main

import (
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/npu_fused_paged_attention/pagedattention"
	"github.com/seed98097648/tune/plugins/npu_fused_paged_attention/reshapecache"
)

func main() {
	plugin.Serve(pagedattention.Name, pagedattention.Version, new(pagedattention.Kernel), reshapecache.Kernel{})
}
