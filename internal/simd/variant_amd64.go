//go:build !noasm

package simd

import (
	"slices"

	"golang.org/x/sys/cpu"
)

//go:generate go -C _asm run . -out ../asm_amd64.s -stubs ../asm_amd64.go -pkg simd

// An instructionSet is what the assembly of a variant is made of.
type instructionSet struct {
	suffix  string   // ends the names of its functions; what has none uses what every amd64 has
	needs   []string // all that its instructions need, names in features; a test reads the assembly for it
	variant *variant // nil: none of its own
	int8    *int8Kernel
}

// instructionSets are those that there is assembly for, the fastest first. A variant may
// use the functions of those below it.
var instructionSets = []instructionSet{
	{"AMX", []string{"AVX", "AVX2", "FMA", "F16C", "BMI2", "AVX512F", "AVX512VL", "AVX512BW", "AVX512_VNNI", "AMX_TILE",
		"AMX_BF16"}, nil, nil},
	{"VNNI", []string{"AVX", "AVX2", "FMA", "F16C", "BMI2", "AVX512F", "AVX512VL", "AVX512BW", "AVX512_VNNI"}, nil, &int8VNNI},
	{"AVX512", []string{"AVX", "AVX2", "FMA", "F16C", "BMI2", "AVX512F", "AVX512VL", "AVX512BW"}, &variantAVX512, nil},
	{"AVX2", []string{"AVX", "AVX2", "FMA", "F16C"}, &variantAVX2, &int8AVX2},
}

// features tells what this CPU has and the operating system lets programs use, by the
// names that the manuals of Intel and AMD give.
var features = map[string]bool{
	"AVX": cpu.X86.HasAVX, "AVX2": cpu.X86.HasAVX2, "FMA": cpu.X86.HasFMA, "F16C": cpu.X86.HasF16C,
	"BMI2":    cpu.X86.HasBMI2,
	"AVX512F": cpu.X86.HasAVX512F, "AVX512VL": cpu.X86.HasAVX512VL,
	"AVX512BW": cpu.X86.HasAVX512BW, "AVX512_VNNI": cpu.X86.HasAVX512VNNI,
	// Whether the operating system lets programs use these, allowTiles asks.
	"AMX_TILE": cpu.X86.HasAMXTile, "AMX_BF16": cpu.X86.HasAMXBF16,
}

// assembly returns the variants in assembly that this CPU can run.
func assembly() []*variant {
	var can []*variant
	for _, set := range instructionSets {
		if set.variant != nil && set.there() {
			can = append(can, set.variant)
		}
	}
	return can
}

// there reports whether this CPU has all that the set needs.
func (set instructionSet) there() bool {
	return !slices.ContainsFunc(set.needs, func(name string) bool { return !features[name] })
}

var variantAVX512 = variant{
	name: "avx512",
	gemm: &gemmKernel{rows: 6, cols: 64, lanes: 16, step: 8, unit: 8, transpose: transpose8AVX2,
		copyPanels: copyPanelsAVX2,
		part: func(rows, cols, k int, a *float32, lane, step int, b *float32, width int, c *float32, stride int, add bool) {
			blocksAVX512[rows-1][(cols-1)/16](k, a, lane, step, b, width, c, stride, cols, add)
		}},
	few: fewRows{lanes: 16,
		plain:    fewKernels{few1AVX512, few2AVX512, few4AVX512, few8AVX512},
		bfloat16: fewKernels{few1BFloat16AVX512, few2BFloat16AVX512, few4BFloat16AVX512, few8BFloat16AVX512},
		float16:  fewKernels{few1Float16AVX512, few2Float16AVX512, few4Float16AVX512, few8Float16AVX512},
		int8:     fewKernels{few1Int8AVX512, few2Int8AVX512, few4Int8AVX512, few8Int8AVX512},
	},

	dot:         dotAVX512,
	dot3:        dot3AVX512,
	maximum:     maximumAVX512,
	sumSquares:  sumSquaresAVX512,
	dotWide:     dotWideAVX512,
	addProducts: wholeProducts(addProductsAVX512, 16),
	add:         addAVX512,
	mul:         mulAVX512,
	mulAdd:      mulAddAVX512,
	scale:       scaleAVX512,
	axpy:        axpyAVX512,
	addRows:     addRowsAVX512,

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

	adamW:  adamWAVX512,
	adamW8: adamW8AVX512,

	fromBFloat16: fromBFloat16AVX512,
	fromFloat16:  fromFloat16AVX512,
	toBFloat16:   toBFloat16AVX512,
	toFloat16:    toFloat16AVX512,
	fromInt8:     fromInt8AVX512,
	fromNF4:      wholeNF4(fromNF4AVX512, 16),

	decodeSigned:   decodeSignedAVX512,
	decodeUnsigned: decodeUnsignedAVX512,
	encodeSigned:   encodeSignedAVX512,
	encodeUnsigned: encodeUnsignedAVX512,
	maxAbs:         maxAbsAVX512,
	roundRandomly:  roundRandomlyAVX512,
}

var variantAVX2 = variant{
	name: "avx2",
	gemm: &gemmKernel{rows: 6, cols: 16, lanes: 8, step: 8, unit: 8, narrow: true, transpose: transpose8AVX2,
		copyPanels: copyPanelsAVX2,
		part: func(rows, cols, k int, a *float32, lane, step int, b *float32, width int, c *float32, stride int, add bool) {
			blocksAVX2[rows-1][(cols-1)/8](k, a, lane, step, b, width, c, stride, cols, add)
		},
		several: func(rows, cols, k int, a *float32, lane, step int, b *float32, pitch int, c *float32, stride int, add bool) {
			blocksAVX2[rows-1][1](k, a, lane, step, b, pitch, c, stride, cols, add)
		}},
	few: fewRows{lanes: 8,
		plain:    fewKernels{few1AVX2, few2AVX2, few4AVX2, few8AVX2},
		bfloat16: fewKernels{few1BFloat16AVX2, few2BFloat16AVX2, few4BFloat16AVX2, few8BFloat16AVX2},
		float16:  fewKernels{few1Float16AVX2, few2Float16AVX2, few4Float16AVX2, few8Float16AVX2},
		int8:     fewKernels{few1Int8AVX2, few2Int8AVX2, few4Int8AVX2, few8Int8AVX2},
	},

	dot:         dotAVX2,
	dot3:        dot3AVX2,
	maximum:     maximumAVX2,
	sumSquares:  sumSquaresAVX2,
	dotWide:     dotWideAVX2,
	addProducts: wholeProducts(addProductsAVX2, 8),
	add:         addAVX2,
	mul:         mulAVX2,
	mulAdd:      mulAddAVX2,
	scale:       scaleAVX2,
	axpy:        axpyAVX2,
	addRows:     addRowsAVX2,

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
	fromNF4:      wholeNF4(fromNF4AVX2, 8),

	decodeSigned:   decodeSignedAVX2,
	decodeUnsigned: decodeUnsignedAVX2,
	encodeSigned:   encodeSignedAVX2,
	encodeUnsigned: encodeUnsignedAVX2,
	maxAbs:         maxAbsAVX2,
	roundRandomly:  roundRandomlyAVX2,
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

// wholeProducts makes addProducts out of one for whole vectors of so many elements.
func wholeProducts(vectors func([]float64, []float32, []float32), lanes int) func(sum []float64, a, b []float32) {
	return func(sum []float64, a, b []float32) {
		n := len(a) / lanes * lanes
		vectors(sum[:n], a[:n], b[:n])
		addProductsGeneric(sum[n:], a[n:], b[n:])
	}
}

// wholeNF4 makes a conversion out of one for multiples of so many elements.
func wholeNF4(vectors func(dst []float32, src []byte, absmax float32), lanes int) func([]float32, []byte, float32) {
	return func(dst []float32, src []byte, absmax float32) {
		n := len(dst) / lanes * lanes
		vectors(dst[:n], src[:n/2], absmax)
		if n < len(dst) {
			fromNF4Generic(dst[n:], src[n/2:], absmax)
		}
	}
}

// wholePairs makes a rotation out of one for multiples of eight pairs.
func wholePairs(vectors func(cos, sin, dst, x []float32)) func(cos, sin, dst, x []float32) {
	return func(cos, sin, dst, x []float32) {
		n := len(cos) &^ 7
		vectors(cos[:n], sin[:n], dst[:2*n], x[:2*n])
		rotatePairsGeneric(cos[n:], sin[n:], dst[2*n:], x[2*n:])
	}
}

// The kernels of blocks of 1, 2, ... rows and of 1, 2, ... vectors in each. The widest of AVX2 go from panel to panel, all as
// wide as they are; of one panel, they do not look how far the next is.
var (
	blocksAVX512 = [6][4]func(k int, a *float32, lane, step int, b *float32, width int, c *float32, stride, cols int,
		add bool){
		{block1x16AVX512, block1x32AVX512, block1x48AVX512, block1x64AVX512},
		{block2x16AVX512, block2x32AVX512, block2x48AVX512, block2x64AVX512},
		{block3x16AVX512, block3x32AVX512, block3x48AVX512, block3x64AVX512},
		{block4x16AVX512, block4x32AVX512, block4x48AVX512, block4x64AVX512},
		{block5x16AVX512, block5x32AVX512, block5x48AVX512, block5x64AVX512},
		{block6x16AVX512, block6x32AVX512, block6x48AVX512, block6x64AVX512},
	}
	blocksAVX2 = [6][2]func(k int, a *float32, lane, step int, b *float32, width int, c *float32, stride, cols int,
		add bool){
		{block1x8AVX2, block1x16AVX2},
		{block2x8AVX2, block2x16AVX2},
		{block3x8AVX2, block3x16AVX2},
		{block4x8AVX2, block4x16AVX2},
		{block5x8AVX2, block5x16AVX2},
		{block6x8AVX2, block6x16AVX2},
	}
)
