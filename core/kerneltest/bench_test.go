package kerneltest_test

import (
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// counted is memory that knows what lies in it.
type counted map[*byte]bool

func (m counted) Alloc(n int) ([]byte, error) {
	b := core.NewTensor(core.Int64, (n+7)/8+8).Data
	for i := range b { // from any byte on
		m[&b[i]] = true
	}
	return b[:n], nil
}

func (counted) Free([]byte) {}

func (m counted) holds(tensors []core.Tensor) bool {
	for _, x := range tensors {
		start := unsafe.SliceData(x.Data)
		if !m[start] || uintptr(unsafe.Pointer(start))%64 != 0 {
			return false
		}
	}
	return true
}

func TestCallsInPlacesAlignedTensors(t *testing.T) {
	for _, op := range core.Ops() {
		t.Run(string(op), func(t *testing.T) {
			in, out := counted{}, counted{}
			c := kerneltest.Cases(op)[1]
			forward, backward, err := kerneltest.CallsIn(t.Context(), reference.Kernel(op), c, in, out)
			if err != nil {
				t.Fatal(err)
			}
			elsewhere, _, err := kerneltest.Calls(t.Context(), reference.Kernel(op), c)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []*core.Call{forward, backward}[:len(op.Passes())] {
				if !in.holds(call.In) || !out.holds(call.Out) {
					t.Errorf("%s: a tensor is not where it should be, or not aligned", call.Pass)
				}
				if err := core.Run(t.Context(), reference.Kernel(op), call); err != nil {
					t.Errorf("%s: %v", call.Pass, err)
				}
			}
			for i := range elsewhere.Out {
				if diff := cmp.Diff(elsewhere.Out[i].Data, forward.Out[i].Data); diff != "" {
					t.Errorf("other data than Calls has: %s", diff)
				}
			}
		})
	}
}
