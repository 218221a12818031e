// Package ops has the ops of the contract, a folder for each, which says everything about it:
// its contract with kernels, its formulas, what a kernel is tried on and measured with, how to
// judge what it gives, what is recorded of published code, and the kernel that authors begin
// with. Package core/reference runs the formulas, core/kerneltest the cases, internal/golden the
// recordings, internal/opbench the shapes; internal/scaffold copies the kernels.
//
// Plugins do not link it: the contracts are copied into package core, where plugins find them.
package ops

//go:generate go run generate.go

import (
	"embed"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Scaffolds has the sources of the kernels that authors begin with, in NAME/scaffold.
//
//go:embed */scaffold/*.go
var Scaffolds embed.FS

// Of returns what is known of an op, nothing of what is none.
func Of(op core.Op) *opdef.Op {
	for _, o := range all {
		if o.Name == op {
			return o
		}
	}
	return &opdef.Op{}
}
