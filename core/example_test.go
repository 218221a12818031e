package core_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/seed98097648/tune/core"
)

// A report says site by site which forward is in place, or why the plain one stays.
func ExampleApplyDefaultKernels() {
	var model fakeModel
	for layer := range 12 {
		for _, site := range []struct {
			path string
			op   core.Op
		}{{"input_layernorm", core.RMSNorm}, {"self_attn", core.RoPE}, {"mlp", core.SwiGLU}} {
			model = append(model, core.Site{
				Path:  fmt.Sprintf("layers.%d.%s", layer, site.path),
				Op:    site.op,
				Facts: validFacts(site.op),
				Hook:  &fakeHook{},
			})
		}
	}
	reg := core.NewRegistry()
	for _, k := range []core.Kernel{
		newKernel("npu_fused_rmsnorm", core.RMSNorm),
		refuse(newKernel("npu_fused_rope", core.RoPE), "rotary_dim=4 of head_dim=6"),
	} {
		if err := reg.Register(k); err != nil {
			fmt.Println(err)
		}
	}

	report, err := core.ApplyDefaultKernels(context.Background(), model, reg, "all")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(report)
	fmt.Println("restored:", report.Restore() == nil)
	// Output:
	// N   PATH                      FORWARD
	// 12  layers.*.input_layernorm  plain -> npu_fused_rmsnorm
	// 12  layers.*.self_attn        plain rope (npu_fused_rope: not supported:
	//       rotary_dim=4 of head_dim=6)
	// 12  layers.*.mlp              plain swiglu (no kernel offers swiglu)
	// 12 of 36 sites use a fused kernel
	// restored: true
}

// exampleRegistry has linked kernels that compute nothing, for rms_norm and rope.
func exampleRegistry() *core.Registry {
	reg := core.NewRegistry()
	for _, k := range []core.Kernel{newKernel("my_norm", core.RMSNorm), newKernel("my_rope", core.RoPE)} {
		if err := reg.Register(k); err != nil {
			fmt.Println(err)
		}
	}
	return reg
}

// What --kernels takes.
func ExampleParseSelection() {
	sel, err := core.ParseSelection("auto,-npu_fused_rope")
	fmt.Println(sel.Auto, sel.Not, err)
	_, err = core.ParseSelection("auto,all")
	fmt.Println(err)
	// Output:
	// true [npu_fused_rope] <nil>
	// core: kernel selection "auto,all": auto and all exclude each other
}

// A plan changes nothing until it is applied.
func ExampleNewPlan() {
	model := newModel(core.RMSNorm, core.RoPE)
	plan, err := core.NewPlan(context.Background(), model, exampleRegistry(), core.Selection{Names: []string{"my_norm"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range plan.Actions {
		fmt.Printf("%s: kernel %t, reason %q\n", a.Site.Path, a.Kernel != nil, a.Reason)
	}
	fmt.Println("in place:", model[0].Hook.Kernel() != nil)
	// Output:
	// layers.0.rms_norm: kernel true, reason ""
	// layers.1.rope: kernel false, reason "not selected"
	// in place: false
}

// A kernel that is named goes to every site of its op that it supports; none is an error.
func ExampleApplyKernel() {
	ctx, reg := context.Background(), exampleRegistry()
	report, err := core.ApplyKernel(ctx, "my_norm", newModel(core.RMSNorm, core.RMSNorm, core.SwiGLU), reg)
	fmt.Println(report.Applied(), err)
	_, err = core.ApplyKernel(ctx, "my_rope", newModel(core.RMSNorm), reg)
	fmt.Println(err)
	// Output:
	// map[my_norm:2] <nil>
	// core: kernel my_rope: no matching site: it offers rope; the model uses rms_norm
}

// Restoring gives the sites back what this report's application took from them.
func ExampleReport_Restore() {
	model := newModel(core.RMSNorm)
	report, err := core.ApplyKernel(context.Background(), "my_norm", model, exampleRegistry())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(model[0].Hook.Kernel() != nil)
	fmt.Println(report.Restore(), model[0].Hook.Kernel() != nil)
	// Output:
	// true
	// <nil> false
}

// The kernels of an earlier run are placed again, site by site.
func ExampleRepeat() {
	ctx, reg := context.Background(), exampleRegistry()
	first, err := core.ApplyDefaultKernels(ctx, newModel(core.RMSNorm, core.RoPE), reg, "all,-my_rope")
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := core.Repeat(ctx, newModel(core.RMSNorm, core.RoPE), reg, first.Placements())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range plan.Actions {
		fmt.Printf("%s: kernel %t, reason %q\n", a.Site.Path, a.Kernel != nil, a.Reason)
	}
	// Output:
	// layers.0.rms_norm: kernel true, reason ""
	// layers.1.rope: kernel false, reason "plain in that run"
}

// A model of one's own says how auto measures it. Most programs pass the Measure of package
// trainer/measure.
func ExampleMeasured() {
	stopwatch := func(_ context.Context, _ core.Site, k core.Kernel) (core.Measurement, error) {
		m := core.Measurement{Plain: 2 * time.Millisecond, Kernel: time.Millisecond, Tokens: 512}
		if k.Info().Name == "my_rope" {
			m.Kernel = 3 * time.Millisecond
		}
		return m, nil
	}
	ctx, model, reg := context.Background(), newModel(core.RMSNorm, core.RoPE), exampleRegistry()
	report, err := core.ApplyDefaultKernels(ctx, model, reg, "auto", core.Measured(stopwatch))
	fmt.Print(report)
	fmt.Println(err)
	// Output:
	// N  PATH               FORWARD
	// 1  layers.*.rms_norm  plain -> my_norm
	//     2.0x: 1.00 ms against 2.00 ms plain, 512 tokens
	// 1  layers.*.rope      plain rope
	//     my_rope is slower: 3.00 ms against 2.00 ms plain, 512 tokens
	// 1 of 2 sites use a fused kernel
	// <nil>
}

// Some sites are to stay plain, for a reason that the report gives.
func ExampleExcept() {
	first := core.Except(func(s core.Site) string {
		if s.Path == "layers.0.rms_norm" {
			return "the first layer is left alone"
		}
		return ""
	})
	ctx, model := context.Background(), newModel(core.RMSNorm, core.RMSNorm)
	report, err := core.ApplyDefaultKernels(ctx, model, exampleRegistry(), "all", first)
	fmt.Print(report)
	fmt.Println(err)
	// Output:
	// N  PATH               FORWARD
	// 1  layers.*.rms_norm  plain rms_norm (the first layer is left alone)
	// 1  layers.*.rms_norm  plain -> my_norm
	// 1 of 2 sites use a fused kernel
	// <nil>
}

// A name that nobody has gives the nearest ones.
func ExampleRegistry_Lookup() {
	_, err := exampleRegistry().Lookup("my_nrom")
	fmt.Println(errors.Is(err, core.ErrUnknownKernel), err)
	// Output: true core: unknown kernel "my_nrom"; known, nearest first: my_norm, my_rope
}

// Every file of a folder is opened; transport.Open is the usual opener. What cannot be used
// is listed with its reason.
func ExampleScanAllKernels() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "something.exe"), nil, 0o755); err != nil {
		fmt.Println(err)
		return
	}
	open := func(context.Context, string) (core.Plugin, error) { return nil, errors.New("it is no plugin") }
	reg, err := core.ScanAllKernels(context.Background(), []string{dir}, open)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reg.Close()
	for _, f := range reg.Listing() {
		fmt.Println(filepath.Base(f.Path), f.Err)
	}
	// Output: something.exe it is no plugin
}

// A call is checked before a kernel sees it.
func ExampleCall_Check() {
	f := core.Facts{DType: core.Float32, Intermediate: 4, Activation: "silu", Layout: core.Separate}
	c, err := core.NewCall(core.SwiGLU, core.Forward, f)
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Set("gate", core.NewTensor(core.Float32, 2, 4))
	c.Set("up", core.NewTensor(core.Float32, 2, 4))
	c.Set("y", core.NewTensor(core.Float32, 2, 4))
	fmt.Println(c.Tokens(), c.Check())
	c.Set("up", core.NewTensor(core.Float32, 2, 3))
	fmt.Println(errors.Is(c.Check(), core.ErrBadCall))
	// Output:
	// 2 <nil>
	// true
}

// What an op has to do at least, for a ceiling of its speed.
func ExampleNewWork() {
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 64, Vocab: 1000}
	w := core.NewWork(core.LinearCrossEntropy, core.Forward, f, 16, 0)
	fmt.Println(w.Products, "operations in matrix products")
	// Output: 2.048e+06 operations in matrix products
}

// Half-precision values are read and written as float32.
func ExampleTensor_Store() {
	t := core.NewTensor(core.BFloat16, 3)
	t.Store([]float32{1, 0.1, -2}, 0)
	values := make([]float32, 3)
	t.Load(values, 0)
	fmt.Println(t.DType, t.Shape, values)
	// Output: bfloat16 [3] [1 0.100097656 -2]
}
