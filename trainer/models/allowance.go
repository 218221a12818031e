package models

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// allowance is a core.Memory that refuses a model far larger than its files. Without it
// a wrong or hostile config.json would be found out only when the machine has no memory
// left, because names and shapes are compared after the model is built. It is generous,
// so that a model that fits just badly is built and every tensor at fault gets named.
type allowance struct {
	core.Memory
	tensors, bytes int // in the files, as float32
	params, taken  int // given out so far: allocations, and their bytes
}

const (
	// perParam is charged for every parameter besides its bytes: sites, names and layers
	// take memory too, and a billion layers may have hardly any weights.
	perParam = 4 << 10
	// factor and spare are how much more than the files a model may take.
	factor = 4
	spare  = 1 << 20
)

// lift ends it, once names and shapes are compared.
func (a *allowance) lift() { a.bytes = math.MaxInt / (2 * factor) }

func newAllowance(mem core.Memory, files *checkpoint.Set) *allowance {
	return &allowance{Memory: mem, tensors: len(files.Names()), bytes: core.Float32.Size() * files.Elems()}
}

// Alloc implements core.Memory.
func (a *allowance) Alloc(n int) ([]byte, error) {
	left := factor*(a.bytes+perParam*a.tensors) + spare - a.taken - perParam*a.params
	if n > left-perParam {
		// One of the two is more than factor times what the files have.
		more, have := fmt.Sprintf("%d bytes", uint64(a.taken)+uint64(n)), fmt.Sprintf("%d", a.bytes)
		if a.params+1 > factor*a.tensors {
			more, have = fmt.Sprintf("%d tensors", a.params+1), fmt.Sprintf("%d", a.tensors)
		}
		return nil, fmt.Errorf("config.json describes a model of %s or more, as float32, but the files hold %s: they do not belong together; "+
			"see the sizes and the number of layers in config.json", more, have)
	}
	a.params++
	a.taken += n
	return a.Memory.Alloc(n)
}
