//go:build ignore

package core

import "slices"

// LinearCrossEntropy is -log softmax(x weight^T)[label], without the logits.
const LinearCrossEntropy Op = "linear_cross_entropy"

var linearCrossEntropy = contract{op: LinearCrossEntropy, weights: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0 && f.Vocab > 0, "dim and vocab must be positive")
	},
	signature: linearCrossEntropySignature,
	work:      lossWork,
}

// linearCrossEntropySignature: backward gives the losses too, because it computes them
// on its way. Who needs both passes at once runs backward alone.
func linearCrossEntropySignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	weight := Arg{Name: "weight", DType: f.WeightDType, Shape: Shape{f.Vocab, f.Dim}}
	labels := Arg{Name: "labels", DType: Int32, Shape: Shape{DimT},
		Points: Points{To: f.Vocab, Some: true, Of: "the vocabulary has %d"}}
	losses := Arg{Name: "losses", DType: Float32, Shape: Shape{DimT}}
	if f.DType == Float64 {
		losses.DType = Float64
	}
	if pass == Forward {
		return Signature{In: []Arg{x, weight, labels}, Out: []Arg{losses}}
	}
	return Signature{In: []Arg{named(losses, "dlosses"), x, weight, labels},
		Out: slices.Concat([]Arg{named(x, "dx")}, gradients(f, weight), []Arg{losses})}
}

// lossWork: every logit is a product with a row of the weight, in both passes, because
// logits are not saved; backward has one more for each gradient.
func lossWork(pass Pass, f Facts, t, _ float64) Work {
	logits, dim := t*float64(f.Vocab), float64(f.Dim)
	if pass == Backward {
		products := 6.0
		if f.Frozen {
			products = 4
		}
		return Work{Products: products * logits * dim, Elementwise: 4 * logits}
	}
	return Work{Products: 2 * logits * dim, Elementwise: 3 * logits}
}
