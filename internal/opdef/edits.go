package opdef

import (
	"math"

	"github.com/seed98097648/tune/core"
)

// changed has a function change the values of each tensor of those names.
func changed(names []string, change func(x core.Tensor, v []float64)) Edit {
	return func(in map[string][]core.Tensor) {
		for _, name := range names {
			for _, x := range in[name] {
				v := Values[float64](x)
				change(x, v)
				Store(x, v)
			}
		}
	}
}

// Each sets every element of the inputs of those names, by token and place in it.
func Each(f func(t, i int, v float64) float64, names ...string) Edit {
	return changed(names, func(x core.Tensor, v []float64) {
		width := len(v) / x.Shape[0]
		for i := range v {
			v[i] = f(i/width, i%width, v[i])
		}
	})
}

// Scaled multiplies an input; with a standard deviation of 1 before, the largest of a
// few hundred values is about three times the factor.
func Scaled(name string, by float32) Edit {
	return Each(func(_, _ int, v float64) float64 { return v * float64(by) }, name)
}

// Ladders scales each token of the inputs of those names by another power of two. Where the
// scale of a result is that of a product of so many of them, the powers are a part of the range.
func Ladders(d core.DType, power float64, names ...string) Edit {
	from, to := exponents(d, power)
	return changed(names, func(x core.Tensor, v []float64) {
		T, low := x.Shape[0], from
		if x.DType == core.Float32 && d != core.Float32 {
			low = max(low, -100)
		}
		for i := range v {
			t := i / (len(v) / T)
			v[i] *= math.Exp2(math.Round(low + (to-low)*float64(t)/float64(max(T-1, 1))))
		}
	})
}

// Everywhere adds the extremes that all ops have: gradients of all scales, tokens without
// one, and tokens of zeros. The names are those of the gradients that backward starts from.
func (o *Op) Everywhere(d core.DType, upstream []string, add Adder) {
	add("gradients of all scales", LadderTokens, Ladders(d, 1, upstream...))
	add("tokens without a gradient", 29, someZeros(upstream...))
	add("no gradient", 29, Each(func(_, _ int, _ float64) float64 { return 0 }, upstream...))
	add("tokens of zeros", 29, someZeros(o.Zeros...))
}

// someZeros makes rows of the inputs of those names zeros: every second of the first, every third of the next and so
// on, so that where one is zeros others are not, in some rows.
func someZeros(names ...string) Edit {
	return func(in map[string][]core.Tensor) {
		every := 2
		for _, name := range names {
			if len(in[name]) > 0 {
				Each(func(t, _ int, v float64) float64 { return v * float64(min(t%every, 1)) }, name)(in)
				every++
			}
		}
	}
}

// exponents are the powers of two between which tokens are scaled: from the smallest numbers
// of the storage type to those whose product with another, so many times itself, is almost too
// large.
func exponents(d core.DType, power float64) (from, to float64) {
	switch d {
	case core.Float16:
		return -20 / power, 11 / power
	case core.BFloat16:
		return -130 / power, 110 / power
	}
	return -145 / power, 110 / power
}

// Both makes several changes.
func Both(edits ...Edit) Edit {
	return func(in map[string][]core.Tensor) {
		for _, edit := range edits {
			edit(in)
		}
	}
}

// Tiny makes a value one of the smallest that a storage type has, with a few digits left.
func Tiny(d core.DType) func(_, _ int, v float64) float64 {
	return func(_, _ int, v float64) float64 { return v * 64 * Smallest(d) }
}

// LadderTokens is how many tokens have a scale of their own.
const LadderTokens = 37

// Smallest is the smallest number above 0 of a storage type.
func Smallest(d core.DType) float64 {
	switch d {
	case core.BFloat16:
		return 0x1p-133
	case core.Float16:
		return 0x1p-24
	}
	return math.SmallestNonzeroFloat32
}

// EachThird puts a number into all elements of every third row, from the first on, of the inputs of those names.
func EachThird(to float64, names ...string) Edit {
	return Each(func(t, _ int, v float64) float64 {
		if t%3 == 0 {
			return to
		}
		return v
	}, names...)
}

// NotFinite puts NaN of both signs, as processors give, and infinities into single elements of the inputs of those
// names, each in a row of its own; other rows stay finite.
func NotFinite(names ...string) Edit {
	return func(in map[string][]core.Tensor) {
		row := 0
		for _, name := range names {
			for _, x := range in[name] {
				width := x.Elems() / x.Shape[0]
				for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(math.NaN(), -1)} {
					at := row%x.Shape[0]*width + (i+row)%width
					x.Store([]float32{float32(v)}, at)
					row++
				}
			}
		}
	}
}

// SingleNaN makes one element near the beginning NaN, of the inputs of those names that there are. Alone among many,
// it is lost where the largest of them is looked for with instructions that take the other of two if one is NaN.
func SingleNaN(names ...string) Edit {
	return func(in map[string][]core.Tensor) {
		for _, name := range names {
			for _, x := range in[name] {
				x.Store([]float32{float32(math.NaN())}, min(3, x.Elems()-1))
			}
		}
	}
}
