// Finetune_folder fine-tunes a Hugging Face model folder on a text file, as the tune
// command does, from a Go program:
//
//	go run ./examples/finetune_folder MODEL_DIR DATA_FILE OUT_DIR [PLUGIN_DIR]
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/trainer"
)

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: finetune_folder MODEL_DIR DATA_FILE OUT_DIR [PLUGIN_DIR]")
	}
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	ctx := context.Background()
	mem, err := transport.NewMemory("finetune", 0)
	if err != nil {
		return err
	}
	defer mem.Close()

	cfg := trainer.Default()
	cfg.Model, cfg.Data.Paths, cfg.Out = args[0], args[1:2], args[2]
	cfg.Steps, cfg.Batch, cfg.Seq, cfg.LR = 20, 4, 64, 5e-4
	job, err := trainer.Load(ctx, cfg, mem)
	if err != nil {
		return err
	}
	defer job.Close()
	if len(args) > 3 {
		job.Registry, err = core.ScanAllKernels(ctx, args[3:4], transport.Open)
		if err != nil {
			return err
		}
		defer job.Registry.Close()
	}
	job.Hooks.OnPatch = func(r *core.Report) { fmt.Print(r) }
	job.Hooks.OnStep = func(s trainer.Step) { fmt.Printf("step %2d  loss %.4f\n", s.Step, s.Loss) }

	sum, err := job.Run(ctx)
	if err != nil {
		return err
	}
	if sum.Before != nil {
		fmt.Printf("held-out loss %.4f -> %.4f\n", sum.Before.Loss, sum.After.Loss)
	}
	fmt.Println("saved", sum.Out)
	return nil
}
