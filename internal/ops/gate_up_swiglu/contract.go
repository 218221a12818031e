//go:build ignore

package core

// GateUpSwiGLU is y = silu(gate x) * (up x): the two linear layers before swiglu, and that.
const GateUpSwiGLU Op = "gate_up_swiglu"

var gateUpSwiGLU = contract{op: GateUpSwiGLU, weights: true, int8: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0 && f.Intermediate > 0, "dim and intermediate must be positive")
		need(f.Layout == Separate || f.Layout == Packed, "layout must be separate or packed")
		need(f.Activation != "", "activation must be named")
	},
	signature: gateUpSignature,
	work:      gateUpWork,
}

// gateUpSignature: without the fact recompute, what swiglu is of is saved, as moe_experts saves it.
func gateUpSignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	y := Arg{Name: "y", DType: f.DType, Shape: Shape{DimT, f.Intermediate}}
	gate := Arg{Name: "gate", DType: f.WeightDType, Shape: Shape{f.Intermediate, f.Dim}}
	weights := []Arg{gate, named(gate, "up")}
	if f.Layout == Packed {
		weights = []Arg{{Name: "gate_up", DType: f.WeightDType, Shape: Shape{2 * f.Intermediate, f.Dim}}}
	}
	var saved []Arg
	if !f.Recompute {
		saved = []Arg{{Name: "gate_up_out", DType: f.DType, Shape: Shape{DimT, 2 * f.Intermediate}, Saved: true}}
	}
	in := append([]Arg(nil), weights...)
	for _, w := range weights {
		if f.WeightDType == Int8 {
			in = append(in, Arg{Name: w.Name + "_scale", DType: Float32, Shape: w.Shape[:1]})
		}
	}
	if pass == Forward {
		return Signature{In: append([]Arg{x}, in...), Out: append([]Arg{y}, saved...)}
	}
	before := []Arg{named(y, "dy")}
	if !f.Frozen || f.Recompute {
		before = append(before, x)
	}
	return Signature{In: append(append(before, in...), saved...),
		Out: append([]Arg{named(x, "dx")}, gradients(f, weights...)...)}
}

// gateUpWork: two products forward, and backward two for each of these, one if the weights are
// frozen, after those of the forward pass if they are not saved; and a swiglu.
func gateUpWork(pass Pass, f Facts, t, _ float64) Work {
	products := 4 * t * float64(f.Dim) * float64(f.Intermediate)
	w := elementwise(pass, t*float64(f.Intermediate), 5, 10)
	if w.Products = products; pass == Backward {
		if !f.Frozen {
			w.Products += products
		}
		if f.Recompute {
			w.Products += products
		}
		w.Elementwise += t * float64(f.Dim) // two products are added to one dx
	}
	return w
}
