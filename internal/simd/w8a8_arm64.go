//go:build !noasm

package simd

import "golang.org/x/sys/cpu"

// int8Assembly returns the kernels of int8 products that this CPU can run. The instruction for dot products of int8 is an
// extension of AdvSIMD that came with Armv8.2.
func int8Assembly() []*int8Kernel {
	if cpu.ARM64.HasASIMDDP {
		return []*int8Kernel{&int8Dot, &int8NEON}
	}
	return []*int8Kernel{&int8NEON}
}

var (
	int8Dot = int8Kernel{name: "dotprod", rows: 4, cols: 4, block: inVectors(4, &blocksInt8Dot), largest: largestBits,
		scaleSums: scaleSums}
	int8NEON = int8Kernel{name: "neon", rows: 4, cols: 4, block: inVectors(4, &blocksInt8NEON), largest: largestBits,
		scaleSums: scaleSums}

	blocksInt8Dot  = blockFunctions{{int8Block1x1DotNEON, int8Block1x4DotNEON}, {int8Block4x1DotNEON, int8Block4x4DotNEON}}
	blocksInt8NEON = blockFunctions{{int8Block1x1NEON, int8Block1x4NEON}, {int8Block4x1NEON, int8Block4x4NEON}}
)
