package simd

// variant is one implementation of everything that has several.
type variant struct {
	name         string
	gemm         *gemmKernel
	fromBFloat16 func(dst []float32, src []uint16)
	toBFloat16   func(dst []uint16, src []float32)
	fromFloat16  func(dst []float32, src []uint16)
	toFloat16    func(dst []uint16, src []float32)
}

var generic = variant{
	name:         "generic",
	gemm:         &genericGemm,
	fromBFloat16: fromBFloat16Generic,
	toBFloat16:   toBFloat16Generic,
	fromFloat16:  fromFloat16Generic,
	toFloat16:    toFloat16Generic,
}

// variants are those that this CPU can run, the fastest first.
var variants = append(assembly(), &generic)

// active is the variant in use. Only tests set it again.
var active = variants[0]
