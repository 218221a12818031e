package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/seed98097648/tune/core"
)

// Type is how the numbers of a tensor are stored.
type Type struct {
	name         string
	id           uint32 // of the tensor
	file         uint32 // general.file_type of a file of such matrices
	block, bytes int    // so many numbers take so many bytes
	most         float32
	encode       func(dst []byte, src []float32) // whole blocks
}

// String returns the name, such as q8_0.
func (t Type) String() string { return t.name }

// size returns the bytes of so many numbers, which must be whole blocks.
func (t Type) size(n int) int { return n / t.block * t.bytes }

// types are in the order of the help.
var types = []Type{
	{"f32", 0, 0, 1, 4, math.MaxFloat32, encodeF32},
	{"f16", 1, 1, 1, 2, mostF16, encodeF16},
	{"bf16", 30, 32, 1, 2, 0x1.fep127, encodeBF16},
	{"q8_0", 8, 7, blockLen, 2 + blockLen, 127 * mostF16, encodeQ8},
	{"q4_0", 2, 2, blockLen, 2 + blockLen/2, 8 * mostF16, encodeQ4},
}

// blockLen is how many numbers share a scale; mostF16 is the largest number of float16.
const (
	blockLen = 32
	mostF16  = 65504
)

var f32, f16 = types[0], types[1]

// TypeNames returns the names that ParseType knows.
func TypeNames() []string {
	var names []string
	for _, t := range types {
		names = append(names, t.name)
	}
	return names
}

// ParseType returns the type of a name.
func ParseType(name string) (Type, error) {
	for _, t := range types {
		if t.name == name {
			return t, nil
		}
	}
	return Type{}, fmt.Errorf("unknown type %q; known: %s", name, strings.Join(TypeNames(), ", "))
}

// typeOf returns the type in which nothing of a tensor of this dtype is lost.
func typeOf(d core.DType) Type {
	switch d {
	case core.Float16:
		return f16
	case core.BFloat16:
		return types[2]
	}
	return f32
}

func encodeF32(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
	}
}

func encodeF16(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], core.Float32ToFloat16(v))
	}
}

func encodeBF16(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], core.Float32ToBFloat16(v))
	}
}

// encodeQ8 writes blocks of 32: the scale in float16, and 32 whole numbers from -127 to 127.
// These come from the scale before it is rounded, and halves go away from zero.
func encodeQ8(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[2+blockLen:], src[blockLen:] {
		d := largest(src[:blockLen], false) / 127
		binary.LittleEndian.PutUint16(dst, core.Float32ToFloat16(d))
		by := inverse(d)
		for i, v := range src[:blockLen] {
			dst[2+i] = byte(int8(math.Round(float64(v * by))))
		}
	}
}

// encodeQ4 writes blocks of 32: the scale in float16, and 32 numbers from 0 to 15, of which 8 is
// zero and 0 the one of largest magnitude; two in a byte, the lower half of it from the first 16.
func encodeQ4(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[2+blockLen/2:], src[blockLen:] {
		d := largest(src[:blockLen], true) / -8
		binary.LittleEndian.PutUint16(dst, core.Float32ToFloat16(d))
		by := inverse(d)
		nibble := func(v float32) byte { return min(15, byte(int8(float32(v*by)+8.5))) }
		for i := range blockLen / 2 {
			dst[2+i] = nibble(src[i]) | nibble(src[i+blockLen/2])<<4
		}
	}
}

// largest returns the number of largest magnitude, the first of several, with or without its sign.
func largest(v []float32, signed bool) float32 {
	var most, number float32
	for _, x := range v {
		if a := float32(math.Abs(float64(x))); a > most {
			most, number = a, x
		}
	}
	if signed {
		return number
	}
	return most
}

func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}
