package measure_test

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/nn"
)

// A model of one's own is measured for the batches that it will see. Which way it goes
// depends on the machine; a kernel that is placed is one that was faster.
func ExampleNew() {
	b := nn.NewBuilder(autograd.Heap{})
	nn.NewRMSNorm(b, "norm", "norm", 64, 1e-6)
	body := b.Body()
	reg := core.NewRegistry()
	if err := reg.Register(reference.Kernel(core.RMSNorm)); err != nil {
		fmt.Println(err)
		return
	}
	run := measure.Run{Memory: autograd.Heap{}, Batch: 2, Seq: 16}
	auto := core.Measured(measure.New(reg, run, measure.Options{CacheDir: "off"}))
	report, err := core.ApplyDefaultKernels(context.Background(), &body, reg, "auto", auto)
	if err != nil {
		fmt.Println(err)
		return
	}
	a := report.Actions[0]
	fmt.Println(a.Site.Path, a.Measured.Tokens, a.Measured.Worth() == (a.Kernel != nil))
	// Output: norm 32 true
}
