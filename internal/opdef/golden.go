package opdef

import "github.com/seed98097648/tune/core"

// Recording is one variant of a recording of published code: tensors by name, in float64.
type Recording struct {
	Variant string
	Params  func(into any) // unmarshals the parameters of the published code
	Tensor  func(name string) core.Tensor
}

// Shape returns that of an input.
func (r Recording) Shape(input string) core.Shape { return r.Tensor(r.Variant + ".in." + input).Shape }

// In returns an input, d_NAME being the gradient of the output NAME.
func (r Recording) In(name string) []float64 { return r.values(".in." + name) }

// Out returns an output.
func (r Recording) Out(name string) []float64 { return r.values(".f64." + name) }

// Grad returns the gradient of an input.
func (r Recording) Grad(input string) []float64 { return r.values(".f64.grad." + input) }

func (r Recording) values(name string) []float64 { return Values[float64](r.Tensor(r.Variant + name)) }

// Example is one recorded use of an op.
type Example struct {
	Facts  core.Facts
	Tokens int
	Rows   int // of the rope tables
	// Float64s and Int32s hold inputs by the op's own names, those of both passes. What
	// the kernel's forward pass saves is not among them, unless it is to be replaced.
	Float64s map[string][]float64
	Int32s   map[string][]int32
	Want     map[string][]float64
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
