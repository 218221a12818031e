package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opbench"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/plugins/linked"
	"github.com/seed98097648/tune/trainer/bench"
)

// boundaryKernel is what the boundary is measured with: of the project's kernels the one
// that computes least for each byte.
const boundaryKernel = "npu_fused_rmsnorm"

// boundaryRounds are many, because the differences are small and the calls short.
const boundaryRounds = 200

func (a *app) benchBoundary(ctx context.Context, b *kernelsBenchFlags) (err error) {
	simd.SetThreads(b.threads)
	o := opbench.BoundaryOptions{Calls: b.calls, Rounds: b.rounds, CPU: bench.ThisMachine().CPU, Threads: simd.Threads(), Progress: a.noteWhat}
	reg, err := a.measured(ctx, b, false)
	if err != nil {
		return err
	}
	defer closing(reg, &err)
	portable, err := a.measured(ctx, b, true)
	if err != nil {
		return err
	}
	defer closing(portable, &err)
	mem, err := newMemory()
	if err != nil {
		return err
	}
	defer closing(mem, &err)
	o.Memory = mem
	if o.Across, err = normOf(reg.Lookup(boundaryKernel)); err != nil {
		return err
	}
	if o.Portable, err = normOf(portable.Lookup(boundaryKernel)); err != nil {
		return err
	}
	if o.Linked, err = normOf(linked.Kernels(), nil); err != nil {
		return err
	}
	r, err := opbench.MeasureBoundary(ctx, o)
	if err != nil {
		return err
	}
	return a.printResult(r.Table(), r, b.json)
}

// normOf returns the kernel for rms_norm.
func normOf(kernels []core.Kernel, err error) (core.Kernel, error) {
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(kernels, func(k core.Kernel) bool { return k.Info().Op == core.RMSNorm })
	if i < 0 {
		return nil, fmt.Errorf("the boundary is measured with rms_norm, which %s does not offer", boundaryKernel)
	}
	return kernels[i], nil
}
