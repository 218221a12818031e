// Compare_loss trains one model twice from the same seed, plain and with every fused
// kernel, and prints both losses: they differ by rounding only.
//
//	go build -o bin/plugins/ ./plugins/npu_...
//	go run ./examples/compare_loss bin/plugins
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
)

// config is a Qwen3 of two layers, one dense and one with experts: it has all four ops.
const config = `{"model_type": "qwen3_moe", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
	"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
	"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "mlp_only_layers": [0],
	"initializer_range": 0.2}`

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: compare_loss PLUGIN_DIR")
	}
	ctx := context.Background()
	reg, err := core.ScanAllKernels(ctx, os.Args[1:2], transport.Open)
	if err != nil {
		log.Fatal(err)
	}
	defer reg.Close()
	if err := run(ctx, reg); err != nil {
		log.Print(err)
	}
}

func run(ctx context.Context, reg *core.Registry) error {
	plain, err := losses(ctx, reg, "none")
	if err != nil {
		return err
	}
	fused, err := losses(ctx, reg, "all")
	if err != nil {
		return err
	}
	worst := 0.0
	for i := range plain {
		fmt.Printf("step %2d  plain %.6f  fused %.6f\n", i+1, plain[i], fused[i])
		worst = max(worst, math.Abs(plain[i]-fused[i]))
	}
	fmt.Printf("largest difference %.1e\n", worst)
	return nil
}

// losses trains for a few steps with a selection of kernels.
func losses(ctx context.Context, reg *core.Registry, kernels string) ([]float64, error) {
	mem, err := transport.NewMemory("compare_loss", 0)
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	m, err := models.New([]byte(config), mem)
	if err != nil {
		return nil, err
	}
	m.Init(7)
	if _, err := core.ApplyDefaultKernels(ctx, m, reg, kernels); err != nil {
		return nil, err
	}
	e, err := trainer.NewEngine(m, mem, trainer.EngineConfig{Batch: 4, Seq: 16, Clip: 1, Optim: optim.DefaultConfig()})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	rng, doc := rand.New(rand.NewPCG(7, 7)), make([]int32, 400)
	for i := range doc {
		doc[i] = int32(rng.IntN(8) + i%8*8)
	}
	rows, err := data.Pack([][]int32{doc}, 16, data.None)
	if err != nil {
		return nil, err
	}
	loader, err := data.NewLoader(data.Slice(rows), 4, 7)
	var out []float64
	for err == nil && len(out) < 20 {
		var batch data.Batch
		if batch, err = loader.Next(); err != nil {
			break
		}
		var r trainer.StepResult
		r, err = e.Step(ctx, []data.Batch{batch}, 1e-2)
		out = append(out, r.Loss)
	}
	return out, err
}
