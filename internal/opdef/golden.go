package opdef

import (
	"encoding/binary"

	"github.com/seed98097648/tune/core"
)

// Recording is one variant of a recording of published code: tensors by name, in float64.
type Recording struct {
	Variant string
	Params  func(into any) // unmarshals the parameters of the published code
	Tensor  func(name string) core.Tensor
	Has     func(input string) bool // reports whether there is one
}

// Shape returns that of an input.
func (r Recording) Shape(input string) core.Shape { return r.Tensor(r.Variant + ".in." + input).Shape }

// In returns an input, d_NAME being the gradient of the output NAME.
func (r Recording) In(name string) []float64 { return r.values(".in." + name) }

// Out returns an output.
func (r Recording) Out(name string) []float64 { return r.values(".f64." + name) }

// Single returns an output of the published code in float32.
func (r Recording) Single(name string) []float32 {
	return r.Tensor(r.Variant + ".f32." + name).Float32s()
}

// Int8s returns an input of numbers that fit int8, recorded in int32.
func (r Recording) Int8s(name string) (v []int8) {
	for _, n := range r.Tensor(r.Variant + ".in." + name).Int32s() {
		v = append(v, int8(n))
	}
	return v
}

// Int32s returns an input of numbers that fit int32, recorded in int64.
func (r Recording) Int32s(name string) (v []int32) {
	x := r.Tensor(r.Variant + ".in." + name)
	for i := range x.Elems() {
		v = append(v, int32(binary.LittleEndian.Uint64(x.Data[8*i:])))
	}
	return v
}

// Grad returns the gradient of an input.
func (r Recording) Grad(input string) []float64 { return r.values(".f64.grad." + input) }

func (r Recording) values(name string) []float64 { return Values[float64](r.Tensor(r.Variant + name)) }

// Example is one recorded use of an op.
type Example struct {
	Facts  core.Facts
	Tokens int
	Rows   int // of the rope tables; blocks
	// Sequences and Places are the axes B and M of tables of blocks.
	Sequences, Places int
	// Float64s and Int32s hold inputs by the op's own names, those of both passes. What
	// the kernel's forward pass saves is not among them, unless it is to be replaced.
	Float64s map[string][]float64
	Int32s   map[string][]int32
	Int8s    map[string][]int8
	Want     map[string][]float64
	// Exact, of an op whose results are the same to the bit whoever computes them, are those in float32.
	Exact map[string][]float32
	// Got turns a kernel's outputs into what was recorded; nil: they are the same.
	Got func(out map[string][]float64) map[string][]float64
}

// TokensFirst turns [B, heads, S, D] into [B*S, heads, D].
func TokensFirst(src []float64, shape core.Shape) (dst []float64) {
	B, H, S, D := shape[0], shape[1], shape[2], shape[3]
	for b := range B {
		for s := range S {
			for h := range H {
				dst = append(dst, src[((b*H+h)*S+s)*D:][:D]...)
			}
		}
	}
	return dst
}
