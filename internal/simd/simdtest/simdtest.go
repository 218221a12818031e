// Package simdtest checks what kernels that are built on package simd promise.
package simdtest

import (
	"bytes"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/simd"
)

// SameBits fails when a kernel's outputs depend on the number of threads. The case
// should be large enough to be worth several of them.
func SameBits(t *testing.T, k core.Kernel, c kerneltest.Case) {
	t.Helper()
	defer simd.SetThreads(0)
	var first [2]*core.Call
	for _, threads := range []int{1, 2, 7} {
		simd.SetThreads(threads)
		forward, backward, err := kerneltest.Calls(t.Context(), k, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := core.Run(t.Context(), k, backward); err != nil {
			t.Fatal(err)
		}
		if threads == 1 {
			first = [2]*core.Call{forward, backward}
			continue
		}
		for pass, call := range []*core.Call{forward, backward} {
			for i, x := range call.Out {
				if !bytes.Equal(x.Data, first[pass].Out[i].Data) {
					t.Errorf("%s: output %d has other bits with %d threads than with one", call.Pass, i, threads)
				}
			}
		}
	}
}
