package simd

//go:generate go -C _arm64 run . -out ../asm_arm64.s -stubs ../asm_arm64.go

// variant is one implementation of everything that has several. Which slices have the
// same length, and that the ones of maximum have any, is checked before.
type variant struct {
	name string
	gemm *gemmKernel
	few  fewRows

	dot              func(a, b []float32) float32
	dot3             func(a, b, c []float32) float32
	maximum          func(x []float32) float32
	sumSquares       func(x []float32) float64
	dotWide          func(a, b []float32) float64
	addProducts      func(sum []float64, a, b []float32)
	add, mul, mulAdd func(dst, a, b []float32)
	scale            func(dst, x []float32, s float32)
	axpy             func(alpha float32, x, y []float32)
	addRows          func(k, n int, p, v *float32, strideV int, y *float32) // of whole vectors; nil for axpy

	sigmoid, silu func(dst, x []float32)
	expSum        func(dst, x []float32, scale, shift float32) float32
	softmaxGrad   func(dst, p, dp []float32, dot, scale float32)
	siluGrad      func(dx, dy, x []float32)

	results
	stream results // write past the caches; slices of results start on a cache line
	fence  func()  // for all that was streamed
	// prefetch asks for n bytes, at least one, to be brought to the caches; nil: it cannot.
	prefetch func(x *byte, n int)

	adamW func(p, g, m, v []float32, scale, keep, beta1, new1, beta2, new2, step, eps float32)

	// adamW8 is adamW of whole blocks of elements with moments in codes, which it decodes into m and v; it leaves the
	// largest magnitudes of both in max1 and max2. nil: one after the other.
	adamW8 func(p, g, m, v []float32, code1, code2 []uint8, max1, max2 []float32,
		scale, keep, beta1, new1, beta2, new2, step, eps float32)

	fromBFloat16, fromFloat16 func(dst []float32, src []uint16)
	toBFloat16, toFloat16     func(dst []uint16, src []float32)
	fromInt8                  func(dst []float32, src []int8, scale float32)
	// fromNF4 widens pairs of codes: dst is twice as long as src.
	fromNF4 func(dst []float32, src []byte, absmax float32)

	// Of Codes, for multiples of 16, but for maxAbs.
	decodeSigned, decodeUnsigned func(dst []float32, src []uint8, scale float32)
	// borders is borders.edge and what follows.
	encodeSigned, encodeUnsigned func(dst []uint8, x []float32, borders *float32, scales []float32)
	maxAbs                       func(x []float32) float32
	roundRandomly                func(dst []uint16, src []float32, key, from uint32) // multiples of 8
}

// results are the functions whose results are as large as a layer's.
type results struct {
	scaleMul     func(dst, x, w []float32, s float32)
	normGrad     func(dx, dw, dy, x, w []float32, rstd, mean float32)
	rotateHalves func(lo, hi, a, b, cos, sin []float32)
	// rotateHeads does rotateHalves for each width elements of a row, of which it takes
	// twice as many as there are angles, a multiple of 16; nil: by itself for each.
	rotateHeads func(cos, sin, dst, x []float32, width int)
	rotatePairs func(cos, sin, dst, x []float32)
	swiglu      func(dst, gate, up []float32)
	swigluGrad  func(dgate, dup, dy, gate, up []float32)
}

var genericResults = results{
	scaleMul:     scaleMulGeneric,
	normGrad:     normGradGeneric,
	rotateHalves: rotateHalvesGeneric,
	rotatePairs:  rotatePairsGeneric,
	swiglu:       swigluGeneric,
	swigluGrad:   swigluGradGeneric,
}

var generic = variant{
	name: "generic",
	gemm: &genericGemm,
	few:  dotRows(dotGeneric),

	dot:         dotGeneric,
	dot3:        dot3Generic,
	maximum:     maximumGeneric,
	sumSquares:  sumSquaresGeneric,
	dotWide:     dotWideGeneric,
	addProducts: addProductsGeneric,
	add:         addGeneric,
	mul:         mulGeneric,
	mulAdd:      mulAddGeneric,
	scale:       scaleGeneric,
	axpy:        axpyGeneric,

	sigmoid:     sigmoidGeneric,
	silu:        siluGeneric,
	expSum:      expSumGeneric,
	softmaxGrad: softmaxGradGeneric,
	siluGrad:    siluGradGeneric,

	results: genericResults,
	stream:  genericResults,
	fence:   func() {},

	adamW: adamWGeneric,

	fromBFloat16: fromBFloat16Generic,
	fromFloat16:  fromFloat16Generic,
	toBFloat16:   toBFloat16Generic,
	toFloat16:    toFloat16Generic,
	fromInt8:     fromInt8Generic,
	fromNF4:      fromNF4Generic,

	maxAbs: maxAbsGeneric, // Codes has the other loops in Go
}

// variants are those that this CPU can run, the fastest first.
var variants = append(assembly(), &generic)

// active is the variant in use. Only tests set it again.
var active = variants[0]

// Variant names the instructions in use, such as "avx2".
func Variant() string { return active.name }
