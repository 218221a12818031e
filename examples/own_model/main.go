// Own_model is a program of another module, with a model and a norm of its own. Auto measures
// the norm's kernel against the plain forward and places it if it is worth it. In this folder:
//
//	go mod tidy && go run .
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/trainer/measure"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	mem, err := transport.NewMemory("own_model", 0) // what plugins, too, read without a copy
	if err != nil {
		return err
	}
	defer mem.Close()
	m, err := newModel(mem)
	if err != nil {
		return err
	}
	plain, err := m.loss(ctx, mem)
	if err != nil {
		return err
	}

	reg := core.NewRegistry()
	if err := reg.Register(kerneltest.Verified(norm{})); err != nil { // compared before it is placed
		return err
	}
	size := measure.Run{Memory: mem, Batch: batch, Seq: seq}
	auto := core.Measured(measure.New(reg, size, measure.Options{}))
	report, err := core.ApplyDefaultKernels(ctx, m, reg, "auto", auto)
	if err != nil {
		return err
	}
	fmt.Print(report)
	placed, err := m.loss(ctx, mem)
	if err != nil {
		return err
	}
	if err := report.Restore(); err != nil {
		return err
	}
	restored, err := m.loss(ctx, mem)
	fmt.Printf("loss %.4f plain, %.4f placed, %.4f restored\n", plain, placed, restored)
	return err
}
