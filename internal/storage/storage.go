// Package storage moves tensors between their stored type and float32 at the speed of
// package simd; core's own Load and Store are plain loops.
package storage

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Load widens elements [from, from+len(dst)) of x to dst, as x.Load does.
func Load(dst []float32, x core.Tensor, from int) {
	switch x.DType {
	case core.BFloat16:
		simd.BFloat16ToFloat32(dst, x.Uint16s()[from:from+len(dst)])
	case core.Float16:
		simd.Float16ToFloat32(dst, x.Uint16s()[from:from+len(dst)])
	default:
		x.Load(dst, from)
	}
}

// Store rounds src to elements [from, from+len(src)) of x, as x.Store does.
func Store(x core.Tensor, src []float32, from int) {
	switch x.DType {
	case core.BFloat16:
		simd.Float32ToBFloat16(x.Uint16s()[from:from+len(src)], src)
	case core.Float16:
		simd.Float32ToFloat16(x.Uint16s()[from:from+len(src)], src)
	default:
		x.Store(src, from)
	}
}

// Round rounds v to what d can store. bits is room for as many elements.
func Round(v []float32, d core.DType, bits []uint16) {
	bits = bits[:len(v)]
	switch d {
	case core.BFloat16:
		simd.Float32ToBFloat16(bits, v)
		simd.BFloat16ToFloat32(v, bits)
	case core.Float16:
		simd.Float32ToFloat16(bits, v)
		simd.Float16ToFloat32(v, bits)
	}
}
