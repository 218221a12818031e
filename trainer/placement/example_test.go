package placement_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed98097648/tune/trainer/placement"
)

// Which kernel a run had at which site, from a checkpoint of it.
func ExampleRead() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	state := `{"kernels": [{"path": "layers.0.mlp", "op": "swiglu", "kernel": "npu_fused_swiglu"}]}`
	if err := os.WriteFile(filepath.Join(dir, placement.StateFile), []byte(state), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	was, err := placement.Read(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(was.Kernels[0].Path, was.Kernels[0].Kernel)
	// Output: layers.0.mlp npu_fused_swiglu
}
