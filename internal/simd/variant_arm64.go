//go:build !noasm

package simd

// assembly returns the variants in assembly. Every arm64 CPU that Go runs on has AdvSIMD.
func assembly() []*variant { return []*variant{&variantNEON} }

// resultsNEON are used for streaming too: the only stores past the caches there are a
// hint, for pairs of vectors.
var resultsNEON = results{
	scaleMul:     scaleMulNEON,
	normGrad:     normGradNEON,
	rotateHalves: rotateHalvesNEON,
	rotatePairs:  rotatePairsNEON,
	swiglu:       swigluNEON,
	swigluGrad:   swigluGradNEON,
}

var variantNEON = variant{
	name: "neon",
	gemm: &gemmKernel{rows: 8, cols: 12, step: 8, unit: 4, transpose: transpose8NEON, copyPanels: copyPanelsNEON,
		block: func(rows, k int, a, b, c *float32, stride int, add bool) {
			blocksNEON[rows-1](k, a, b, c, stride, add)
		},
		loose: func(rows, k int, a *float32, lane, step int, b, c *float32, stride int, add bool) {
			looseNEON[rows-1](k, a, lane, step, b, c, stride, add)
		}},
	few: dotRows(dotNEON),

	dot:         dotNEON,
	dot3:        dot3NEON,
	maximum:     maximumNEON,
	sumSquares:  sumSquaresNEON,
	dotWide:     dotWideGeneric,
	addProducts: addProductsGeneric,
	add:         addNEON,
	mul:         mulNEON,
	mulAdd:      mulAddNEON,
	scale:       scaleNEON,
	axpy:        axpyNEON,

	sigmoid:     sigmoidNEON,
	silu:        siluNEON,
	expSum:      expSumNEON,
	softmaxGrad: softmaxGradNEON,
	siluGrad:    siluGradNEON,

	results: resultsNEON,
	stream:  resultsNEON,
	fence:   func() {},

	adamW: adamWNEON,

	fromBFloat16: fromBFloat16NEON,
	fromFloat16:  fromFloat16NEON,
	toBFloat16:   toBFloat16NEON,
	toFloat16:    toFloat16NEON,
	fromInt8:     fromInt8NEON,
	fromNF4:      fromNF4Generic,

	maxAbs: maxAbsGeneric,
}

// The kernels of blocks of 1, 2, ... rows.
var (
	blocksNEON = [8]func(k int, a, b, c *float32, stride int, add bool){
		block1x12NEON, block2x12NEON, block3x12NEON, block4x12NEON, block5x12NEON, block6x12NEON, block7x12NEON,
		block8x12NEON}
	looseNEON = [8]func(k int, a *float32, lane, step int, b, c *float32, stride int, add bool){
		loose1x12NEON, loose2x12NEON, loose3x12NEON, loose4x12NEON, loose5x12NEON, loose6x12NEON, loose7x12NEON,
		loose8x12NEON}
)
