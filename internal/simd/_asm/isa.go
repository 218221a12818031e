package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set with its vectors of float32.
type isa struct {
	name   string // ends the names of its functions
	lanes  int
	stream bool // whole vectors of results are written past the caches
}

var (
	avx2   = isa{name: "AVX2", lanes: 8}
	avx512 = isa{name: "AVX512", lanes: 16}
)

// streaming returns the set with stores that go past the caches.
func (v isa) streaming() isa { return isa{name: "Stream" + v.name, lanes: v.lanes, stream: true} }

// bytes returns the size of a vector.
func (v isa) bytes() int { return 4 * v.lanes }

// reg returns a new vector register.
func (v isa) reg() reg.VecVirtual {
	if v.lanes == 16 {
		return ZMM()
	}
	return YMM()
}

// zero clears a register. The short form of VXORPS clears the whole register and needs no
// more than AVX, but for a register from 16 on it needs AVX512DQ.
func zero(r reg.VecVirtual) {
	if r.Size() == 64 {
		VPXORD(r, r, r)
		return
	}
	VXORPS(r.AsX(), r.AsX(), r.AsX())
}
