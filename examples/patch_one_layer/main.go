// Patch_one_layer puts one fused kernel into a small model, looks at what happened,
// and takes it out again. Build the plugins first:
//
//	go build -o bin/plugins/ ./plugins/npu_...
//	go run ./examples/patch_one_layer bin/plugins
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/trainer/models"
)

// config is a Llama of two layers.
const config = `{"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
	"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}`

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	ctx := context.Background()
	// Memory that plugins can read and, on Linux, cannot write.
	mem, err := transport.NewMemory("patch_one_layer", 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	model, err := models.New([]byte(config), mem)
	if err != nil {
		return err
	}
	model.Init(1)

	// Every executable in the folder is asked who it is.
	dir := "" // the usual folders
	if len(args) > 0 {
		dir = args[0]
	}
	reg, err := core.ScanAllKernels(ctx, transport.Folders(dir), transport.Open)
	if err != nil {
		return err
	}
	defer reg.Close()

	report, err := core.ApplyKernel(ctx, "npu_fused_swiglu", oneLayer{model}, reg)
	if err != nil {
		return err
	}
	fmt.Print(report)
	if err := report.Restore(); err != nil {
		return err
	}
	for _, s := range (oneLayer{model}).Sites() {
		fmt.Printf("after Restore, %s uses a kernel: %v\n", s.Path, s.Hook.Kernel() != nil)
	}
	return nil
}

// oneLayer shows the patcher only the first layer's MLP.
type oneLayer struct{ core.Model }

func (m oneLayer) Sites() []core.Site {
	for _, s := range m.Model.Sites() {
		if s.Path == "layers.0.mlp" {
			return []core.Site{s}
		}
	}
	return nil
}
