package core

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// DType is the storage type of a tensor's elements.
type DType uint8

// The storage types of the contract. Arithmetic on the half-precision types is
// always carried out in float32 or better; see Tensor.Load and Tensor.Store.
const (
	InvalidDType DType = iota
	Float32
	BFloat16
	Float16
	Int32
	Float64
	Int64
	Int8 // quantised weights; what multiplies them is another tensor
	NF4  // quantised weights, two to a byte, the first in its high half: numbers of NF4Values, which others multiply
)

var dtypeNames = [...]string{"invalid", "float32", "bfloat16", "float16", "int32", "float64", "int64", "int8", "nf4"}
var dtypeSizes = [...]int{0, 4, 2, 2, 4, 8, 8, 1, 1}

// String returns the lower-case name, such as "bfloat16".
func (d DType) String() string {
	if int(d) < len(dtypeNames) {
		return dtypeNames[d]
	}
	return "dtype(" + strconv.Itoa(int(d)) + ")"
}

// Size returns the bytes of one element, of NF4 the one that two share; 0 for an invalid type.
func (d DType) Size() int {
	if int(d) < len(dtypeSizes) {
		return dtypeSizes[d]
	}
	return 0
}

// Bytes returns the bytes of so many elements, side by side.
func (d DType) Bytes(elems int) int {
	if d == NF4 {
		return elems/2 + elems%2 // not (elems+1)/2, which overflows
	}
	return elems * d.Size()
}

// ParseDType is the inverse of DType.String.
func ParseDType(s string) (DType, error) {
	if i := slices.Index(dtypeNames[1:], s); i >= 0 {
		return DType(i + 1), nil
	}
	return InvalidDType, fmt.Errorf("core: unknown dtype %q; known: %s", s, strings.Join(dtypeNames[1:], ", "))
}

// MarshalText writes the name, so that JSON shows "float32" and not a number.
func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *DType) UnmarshalText(b []byte) error {
	v, err := ParseDType(string(b))
	if err == nil {
		*d = v
	}
	return err
}

// Shape lists the sizes of a tensor's axes, slowest first. A scalar has none.
type Shape []int

// Elems returns the number of elements, 1 for a scalar.
func (s Shape) Elems() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// overflows reports whether elements of that many bytes are more than an int can count.
func (s Shape) overflows(size int) bool {
	if slices.Contains(s, 0) {
		return false
	}
	for _, d := range s {
		if size > math.MaxInt/d {
			return true
		}
		size *= d
	}
	return false
}

// Equal reports whether both shapes have the same axes.
func (s Shape) Equal(t Shape) bool { return slices.Equal(s, t) }

// String returns the shape as [2 3].
func (s Shape) String() string { return fmt.Sprint([]int(s)) }

// Tensor is a typed, dense, row-major view over memory that somebody else owns:
// a parameter, an activation, a gradient. It does no arithmetic. Copying a Tensor
// copies the view, never the elements. Data may start at any multiple of the
// element size.
type Tensor struct {
	DType DType
	Shape Shape
	Data  []byte // len(Data) == DType.Bytes(Shape.Elems())
	// Content names the bytes, for kernels that keep what they have made of an input. Wherever
	// and whenever a process sees a number again, the bytes are those that they were, also
	// where others have been there meanwhile. 0 says nothing. Views of a part have none.
	Content uint64
}

// NewTensor allocates a zeroed tensor on the Go heap. Tensors that kernels in
// plugins read and write belong in shared memory instead; heap tensors still work
// there, at the price of a copy in every call; see NewTensorIn.
func NewTensor(d DType, shape ...int) Tensor {
	s := Shape(slices.Clone(shape))
	// Back the bytes by 8-byte words so that every element type is aligned.
	n := d.Bytes(s.Elems())
	words := make([]uint64, (n+7)/8)
	return Tensor{DType: d, Shape: s, Data: bytesOf(words)[:n:n]}
}

// NewTensorIn allocates a zeroed tensor in mem. In a memory of transport.NewMemory plugins
// read it where it is; in OutputsOf a kernel, that kernel writes it where it is. Give the
// room back with mem.Free(t.Data).
func NewTensorIn(mem Memory, d DType, shape ...int) (Tensor, error) {
	t := Tensor{DType: d, Shape: slices.Clone(shape)}
	err := t.sizeable()
	if err == nil && mem == nil {
		err = errors.New("core: a tensor needs a memory: pass one of transport.NewMemory, or use NewTensor for the Go heap")
	}
	if err != nil {
		return Tensor{}, err
	}
	if t.Data, err = mem.Alloc(d.Bytes(t.Elems())); err != nil {
		return Tensor{}, fmt.Errorf("core: tensor %s%v: %w", d, t.Shape, err)
	}
	return t, nil
}

// FromFloat32 views v, without copying, as a float32 tensor of the given shape.
func FromFloat32(v []float32, shape ...int) Tensor {
	return Tensor{DType: Float32, Shape: slices.Clone(shape), Data: bytesOf(v)}
}

// FromInt32 views v, without copying, as an int32 tensor of the given shape.
func FromInt32(v []int32, shape ...int) Tensor {
	return Tensor{DType: Int32, Shape: slices.Clone(shape), Data: bytesOf(v)}
}

// sizeable reports whether memory can hold a tensor of that dtype and shape.
func (t Tensor) sizeable() error {
	switch {
	case t.DType.Size() == 0:
		return fmt.Errorf("core: tensor has no dtype")
	case slices.ContainsFunc(t.Shape, func(d int) bool { return d < 0 }):
		return fmt.Errorf("core: tensor shape %v has a negative axis", t.Shape)
	case t.Shape.overflows(t.DType.Size()):
		return fmt.Errorf("core: tensor %s%v is too large for this machine", t.DType, t.Shape)
	}
	return nil
}

// Valid reports whether shape, dtype and data agree and the data is aligned.
func (t Tensor) Valid() error {
	err := t.sizeable()
	switch {
	case err != nil:
		return err
	case len(t.Data) != t.DType.Bytes(t.Shape.Elems()):
		return fmt.Errorf("core: tensor %s%v needs %d bytes, has %d",
			t.DType, t.Shape, t.DType.Bytes(t.Shape.Elems()), len(t.Data))
	case uintptr(unsafe.Pointer(unsafe.SliceData(t.Data)))%uintptr(t.DType.Size()) != 0:
		return fmt.Errorf("core: tensor %s%v is not aligned to its element size", t.DType, t.Shape)
	}
	return nil
}

// IsZero reports whether the tensor is absent (an optional argument not given).
func (t Tensor) IsZero() bool { return t.DType == InvalidDType }

// Elems returns the number of elements.
func (t Tensor) Elems() int { return t.Shape.Elems() }

// Rows returns the product of all axes but the last.
func (t Tensor) Rows() int {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[:len(t.Shape)-1].Elems()
}

// Float32s views the elements of a float32 tensor. It panics on another dtype.
func (t Tensor) Float32s() []float32 { return viewAs[float32](t, Float32) }

// Float64s views the elements of a float64 tensor. It panics on another dtype.
func (t Tensor) Float64s() []float64 { return viewAs[float64](t, Float64) }

// Int32s views the elements of an int32 tensor. It panics on another dtype.
func (t Tensor) Int32s() []int32 { return viewAs[int32](t, Int32) }

// Int64s views the elements of an int64 tensor. It panics on another dtype.
func (t Tensor) Int64s() []int64 { return viewAs[int64](t, Int64) }

// Int8s views the elements of an int8 tensor. It panics on another dtype.
func (t Tensor) Int8s() []int8 { return viewAs[int8](t, Int8) }

// Uint16s views the raw bits of a bfloat16 or float16 tensor. It panics on another dtype.
func (t Tensor) Uint16s() []uint16 {
	if t.DType == BFloat16 {
		return viewAs[uint16](t, BFloat16)
	}
	return viewAs[uint16](t, Float16)
}

// Slice returns the view of elements [from, to) as a tensor of the given shape. Those of NF4 must begin with a byte.
func (t Tensor) Slice(from, to int, shape ...int) Tensor {
	lo, hi := t.DType.Bytes(from), t.DType.Bytes(to)
	return Tensor{DType: t.DType, Shape: slices.Clone(shape), Data: t.Data[lo:hi:hi]}
}

// Reshape returns the same elements under another shape of the same size.
func (t Tensor) Reshape(shape ...int) Tensor {
	if Shape(shape).Elems() != t.Elems() {
		panic(fmt.Sprintf("core: cannot view %v as %v", t.Shape, shape))
	}
	return Tensor{DType: t.DType, Shape: slices.Clone(shape), Data: t.Data}
}

func viewAs[E any](t Tensor, want DType) []E {
	if t.DType != want {
		panic("core: " + t.DType.String() + " tensor read as " + want.String())
	}
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(t.Data))), len(t.Data)/want.Size())
}

func bytesOf[E any](v []E) []byte {
	var e E
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(e)))
}
