//go:build !noasm

package simd

import "golang.org/x/sys/cpu"

//go:generate go -C _asm run . -out ../asm_amd64.s -stubs ../asm_amd64.go -pkg simd

// assembly returns the variants in assembly that this CPU can run.
func assembly() []*variant {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasF16C {
		return nil
	}
	if !x.HasAVX512F || !x.HasAVX512VL || !x.HasBMI2 {
		return []*variant{&variantAVX2}
	}
	return []*variant{&variantAVX512, &variantAVX2}
}

var variantAVX512 = variant{
	name: "avx512",
	gemm: &gemmKernel{rows: 14, cols: 32, step: 16, unit: 8, transpose: transpose8AVX2, copyPanels: copyPanelsAVX2,
		block: func(rows, k int, a, b, c *float32, stride int, add bool) {
			blocksAVX512[rows-1](k, a, b, c, stride, add)
		},
		loose: func(rows, k int, a *float32, lane, step int, b, c *float32, stride int, add bool) {
			looseAVX512[rows-1](k, a, lane, step, b, c, stride, add)
		}},

	dot:        dotAVX512,
	dot3:       dot3AVX512,
	maximum:    maximumAVX512,
	sumSquares: sumSquaresAVX512,
	add:        addAVX512,
	mul:        mulAVX512,
	mulAdd:     mulAddAVX512,
	scale:      scaleAVX512,
	axpy:       axpyAVX512,

	exp:         expAVX512,
	sigmoid:     sigmoidAVX512,
	silu:        siluAVX512,
	expSum:      expSumAVX512,
	softmaxGrad: softmaxGradAVX512,
	siluGrad:    siluGradAVX512,

	results: results{
		scaleMul:     scaleMulAVX512,
		normGrad:     normGradAVX512,
		rotateHalves: rotateHalvesAVX512,
		rotateHeads:  rotateHeadsAVX512,
		rotatePairs:  wholePairs(rotatePairsAVX512),
		swiglu:       swigluAVX512,
		swigluGrad:   swigluGradAVX512,
	},
	stream: results{
		scaleMul:     scaleMulStreamAVX512,
		normGrad:     normGradStreamAVX512,
		rotateHalves: rotateHalvesStreamAVX512,
		rotateHeads:  rotateHeadsStreamAVX512,
		rotatePairs:  wholePairs(rotatePairsStreamAVX512),
		swiglu:       swigluStreamAVX512,
		swigluGrad:   swigluGradStreamAVX512,
	},
	fence:    fenceAMD64,
	prefetch: prefetchAMD64,

	adamW: adamWAVX512,

	fromBFloat16: fromBFloat16AVX512,
	fromFloat16:  fromFloat16AVX512,
	toBFloat16:   toBFloat16AVX512,
	toFloat16:    toFloat16AVX512,
	fromInt8:     fromInt8AVX512,
}

var variantAVX2 = variant{
	name: "avx2",
	gemm: &gemmKernel{rows: 6, cols: 16, step: 8, unit: 8, transpose: transpose8AVX2, copyPanels: copyPanelsAVX2,
		block: func(rows, k int, a, b, c *float32, stride int, add bool) {
			blocksAVX2[rows-1](k, a, b, c, stride, add)
		},
		loose: func(rows, k int, a *float32, lane, step int, b, c *float32, stride int, add bool) {
			looseAVX2[rows-1](k, a, lane, step, b, c, stride, add)
		}},

	dot:        dotAVX2,
	dot3:       dot3AVX2,
	maximum:    maximumAVX2,
	sumSquares: sumSquaresAVX2,
	add:        addAVX2,
	mul:        mulAVX2,
	mulAdd:     mulAddAVX2,
	scale:      scaleAVX2,
	axpy:       axpyAVX2,

	exp:         expAVX2,
	sigmoid:     sigmoidAVX2,
	silu:        siluAVX2,
	expSum:      expSumAVX2,
	softmaxGrad: softmaxGradAVX2,
	siluGrad:    siluGradAVX2,

	results: results{
		scaleMul:     scaleMulAVX2,
		normGrad:     normGradAVX2,
		rotateHalves: rotateHalvesAVX2,
		rotateHeads:  rotateHeadsAVX2,
		rotatePairs:  wholePairs(rotatePairsAVX2),
		swiglu:       swigluAVX2,
		swigluGrad:   swigluGradAVX2,
	},
	stream: results{
		scaleMul:     scaleMulStreamAVX2,
		normGrad:     normGradStreamAVX2,
		rotateHalves: rotateHalvesStreamAVX2,
		rotateHeads:  rotateHeadsStreamAVX2,
		rotatePairs:  wholePairs(rotatePairsStreamAVX2),
		swiglu:       swigluStreamAVX2,
		swigluGrad:   swigluGradStreamAVX2,
	},
	fence:    fenceAMD64,
	prefetch: prefetchAMD64,

	adamW: adamWAVX2,

	fromBFloat16: whole(fromBFloat16AVX2, fromBFloat16Generic),
	fromFloat16:  whole(fromFloat16AVX2, fromFloat16Generic),
	toBFloat16:   whole(toBFloat16AVX2, toBFloat16Generic),
	toFloat16:    whole(toFloat16AVX2, toFloat16Generic),
	fromInt8:     wholeInt8,
}

// whole makes a conversion out of one for whole vectors of eight and one for the rest.
func whole[D, S any](vectors, rest func(dst []D, src []S)) func(dst []D, src []S) {
	return func(dst []D, src []S) {
		n := len(src) &^ 7
		vectors(dst[:n], src[:n])
		rest(dst[n:], src[n:])
	}
}

// wholeInt8 is fromInt8 of whole vectors and of the rest.
func wholeInt8(dst []float32, src []int8, scale float32) {
	n := len(src) &^ 7
	fromInt8AVX2(dst[:n], src[:n], scale)
	fromInt8Generic(dst[n:], src[n:], scale)
}

// wholePairs makes a rotation out of one for multiples of eight pairs.
func wholePairs(vectors func(cos, sin, dst, x []float32)) func(cos, sin, dst, x []float32) {
	return func(cos, sin, dst, x []float32) {
		n := len(cos) &^ 7
		vectors(cos[:n], sin[:n], dst[:2*n], x[:2*n])
		rotatePairsGeneric(cos[n:], sin[n:], dst[2*n:], x[2*n:])
	}
}

// The kernels of blocks of 1, 2, ... rows.
var (
	blocksAVX512 = [14]func(k int, a, b, c *float32, stride int, add bool){
		block1x32AVX512, block2x32AVX512, block3x32AVX512, block4x32AVX512, block5x32AVX512, block6x32AVX512, block7x32AVX512,
		block8x32AVX512, block9x32AVX512, block10x32AVX512, block11x32AVX512, block12x32AVX512, block13x32AVX512, block14x32AVX512}
	blocksAVX2 = [6]func(k int, a, b, c *float32, stride int, add bool){
		block1x16AVX2, block2x16AVX2, block3x16AVX2, block4x16AVX2, block5x16AVX2, block6x16AVX2}
	looseAVX512 = [14]func(k int, a *float32, lane, step int, b, c *float32, stride int, add bool){
		loose1x32AVX512, loose2x32AVX512, loose3x32AVX512, loose4x32AVX512, loose5x32AVX512, loose6x32AVX512, loose7x32AVX512,
		loose8x32AVX512, loose9x32AVX512, loose10x32AVX512, loose11x32AVX512, loose12x32AVX512, loose13x32AVX512, loose14x32AVX512}
	looseAVX2 = [6]func(k int, a *float32, lane, step int, b, c *float32, stride int, add bool){
		loose1x16AVX2, loose2x16AVX2, loose3x16AVX2, loose4x16AVX2, loose5x16AVX2, loose6x16AVX2}
)
