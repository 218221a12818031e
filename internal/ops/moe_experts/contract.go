//go:build ignore

package core

// MoEExperts sends each token through its top-k experts and sums their weighted outputs.
const MoEExperts Op = "moe_experts"

var moeExperts = contract{op: MoEExperts, weights: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0 && f.Intermediate > 0, "dim and intermediate must be positive")
		need(f.Experts > 0 && f.TopK > 0 && f.TopK <= f.Experts, "top_k must be between 1 and experts")
		need(f.Layout == Packed || f.Layout == PerExpert, "layout must be packed or per_expert")
		need(f.Routing == RoutingSoftmax || f.Routing == RoutingNormalized || f.Routing == RoutingAny,
			"routing must be softmax, normalized or any")
		need(f.Activation != "", "activation must be named")
	},
	signature: moeSignature,
	work:      moeWork,
}

func moeSignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	ids := Arg{Name: "expert_ids", DType: Int32, Shape: Shape{DimT, f.TopK}, Points: atExperts(f)}
	probs := Arg{Name: "routing_weights", DType: Float32, Shape: Shape{DimT, f.TopK}}
	saved := Arg{Name: "gate_up_out", DType: f.DType, Shape: Shape{DimT, f.TopK, 2 * f.Intermediate}, Saved: true}
	weights := []Arg{
		{Name: "gate_up", DType: f.WeightDType, Shape: Shape{f.Experts, 2 * f.Intermediate, f.Dim}},
		{Name: "down", DType: f.WeightDType, Shape: Shape{f.Experts, f.Dim, f.Intermediate}},
	}
	if f.Layout == PerExpert {
		weights = []Arg{
			{Name: "gate", DType: f.WeightDType, Shape: Shape{f.Intermediate, f.Dim}, Count: f.Experts},
			{Name: "up", DType: f.WeightDType, Shape: Shape{f.Intermediate, f.Dim}, Count: f.Experts},
			{Name: "down", DType: f.WeightDType, Shape: Shape{f.Dim, f.Intermediate}, Count: f.Experts},
		}
	}
	in := append([]Arg{x, ids, probs}, weights...)
	if pass == Forward {
		return Signature{In: in, Out: []Arg{named(x, "y"), saved}}
	}
	return Signature{In: append(append([]Arg{named(x, "dy")}, in...), saved),
		Out: append([]Arg{named(x, "dx"), named(probs, "drouting_weights")}, gradients(f, weights...)...)}
}

// moeWork: every assignment of a token to an expert is three products with a matrix of
// dim by intermediate, and backward two for each of these, one if the matrices are frozen;
// between them is a swiglu, and rows are weighted and summed.
func moeWork(pass Pass, f Facts, t, _ float64) Work {
	assignments, dim, intermediate := t*float64(f.TopK), float64(f.Dim), float64(f.Intermediate)
	if pass == Backward {
		w := Work{Products: 12 * assignments * dim * intermediate, Elementwise: assignments * (12*intermediate + 2*dim)}
		if f.Frozen {
			w.Products /= 2
		}
		return w
	}
	return Work{Products: 6 * assignments * dim * intermediate, Elementwise: assignments * (5*intermediate + 2*dim)}
}
