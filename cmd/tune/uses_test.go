package main

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/plugins/linked"
)

// TestUsesAreOfTheOp looks at what "kernels inspect" asks about: facts that an op has, which
// read differently, and for each storage some that the project's own kernel supports.
func TestUsesAreOfTheOp(t *testing.T) {
	for _, op := range core.Ops() {
		lines := map[string]bool{}
		for _, f := range uses(op) {
			if lines[f.String()] {
				t.Errorf("%s, %v: asked twice", op, f)
			}
			lines[f.String()] = true
			if err := f.Validate(op); err != nil {
				t.Errorf("%s, %v: %v", op, f, err)
			}
		}
	}
	for _, k := range linked.Kernels() {
		supported := map[core.DType]bool{}
		for _, f := range uses(k.Info().Op) {
			for _, d := range []core.DType{f.DType, f.WeightDType} {
				supported[d] = supported[d] || k.Supports(f) == nil
			}
		}
		for _, d := range k.Info().DTypes {
			if !supported[d] {
				t.Errorf("%s: none of the uses of %s in %s is supported", k.Info().Name, k.Info().Op, d)
			}
		}
	}
}
