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
	if !x.HasAVX512F {
		return []*variant{&variantAVX2}
	}
	return []*variant{&variantAVX512, &variantAVX2}
}

var variantAVX512 = variant{
	name: "avx512",
	gemm: &gemmKernel{rows: 14, cols: 32, step: 16, unit: 8, transpose: transpose8AVX2, copyRows: copyRowsAVX2,
		block: func(rows, k int, a, b, c *float32, stride int, add bool) {
			blocksAVX512[rows-1](k, a, b, c, stride, add)
		}},
	fromBFloat16: fromBFloat16Generic,
	toBFloat16:   toBFloat16Generic,
	fromFloat16:  fromFloat16Generic,
	toFloat16:    toFloat16Generic,
}

var variantAVX2 = variant{
	name: "avx2",
	gemm: &gemmKernel{rows: 6, cols: 16, step: 8, unit: 8, transpose: transpose8AVX2, copyRows: copyRowsAVX2,
		block: func(rows, k int, a, b, c *float32, stride int, add bool) {
			blocksAVX2[rows-1](k, a, b, c, stride, add)
		}},
	fromBFloat16: fromBFloat16Generic,
	toBFloat16:   toBFloat16Generic,
	fromFloat16:  fromFloat16Generic,
	toFloat16:    toFloat16Generic,
}

// The kernels of blocks of 1, 2, ... rows.
var (
	blocksAVX512 = [14]func(k int, a, b, c *float32, stride int, add bool){
		block1x32AVX512, block2x32AVX512, block3x32AVX512, block4x32AVX512, block5x32AVX512, block6x32AVX512, block7x32AVX512,
		block8x32AVX512, block9x32AVX512, block10x32AVX512, block11x32AVX512, block12x32AVX512, block13x32AVX512, block14x32AVX512}
	blocksAVX2 = [6]func(k int, a, b, c *float32, stride int, add bool){
		block1x16AVX2, block2x16AVX2, block3x16AVX2, block4x16AVX2, block5x16AVX2, block6x16AVX2}
)
