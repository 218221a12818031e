package models

import (
	"cmp"

	"github.com/seed98097648/tune/core"
)

// Precision is in what a model multiplies while it is trained. Weights, gradients, sums and all else are float32
// with each of them.
type Precision string

// The precisions.
const (
	Float32 Precision = "float32" // so is the zero value
	// BF16 is mixed precision: linear layers and their adapters round the factors of their products to bfloat16.
	// See nn.Body.Round for what does not.
	BF16 Precision = "bf16"
)

// Precisions returns them all.
func Precisions() []string { return []string{string(Float32), string(BF16)} }

// MarshalText writes the name, so that both ways to say float32 read the same.
func (p Precision) MarshalText() ([]byte, error) { return []byte(cmp.Or(p, Float32)), nil }

// Mixed reports whether any products are in something else than float32.
func (p Precision) Mixed() bool { return p == BF16 }

// Products is the fact of the linear layers; see core.Facts.
func (p Precision) Products() core.DType {
	if p.Mixed() {
		return core.BFloat16
	}
	return core.InvalidDType
}
