// Package gateup is the kernel of the plugin npu_fused_linear for the op gate_up_swiglu. T tokens, D dim,
// I intermediate:
//
//	g, u = x gate^T, x up^T
//	y = g*s(g)*u, s(g) = 1/(1+exp(-g))
//
//	x, dx [T,D]; y, dy [T,I] in storage precision
//	separate: gate and up [I,D]; packed: gate_up [2I,D], the gate first; in their own storage, which int8
//	has multiplied by a number for each row; their gradients float32
//	saved: gate_up_out [T,2I], g and u of each token, unless backward computes them again
//
// Tokens are computed in blocks, so that g and u, where they are not saved, take a bounded memory. Both products
// of a block are computed together, with x split and packed once where they are on tiles. There what is packed of
// frozen weights is kept for later calls.
package gateup

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_linear"
	Version = "0.1.0"
)

const (
	// blockRows bounds the tokens computed at a time, and so the scratch memory. It is part of
	// the order in which gradients of weights are summed.
	blockRows = 1024
	rowGrain  = 4 // rows below which another goroutine does not pay
)

var adds = []string{"dgate", "dup", "dgate_up"}

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16, core.Int8}

// Kernel implements core.Kernel; its zero value is ready. It keeps its scratch memory from call to
// call.
type Kernel struct {
	// Multiply computes products that do not depend on each other; nil for the fastest of this module.
	Multiply vector.Multiplier

	kept   vector.Kept // the weights, where they are frozen
	gateUp []float32   // [rows of a block, 2I]: g and u, or their gradients
	wide   []float32   // [T,D]: dx before it is rounded to storage, unless that is float32
}

// Info implements core.Kernel.
func (k *Kernel) Info() core.Info {
	i := core.Info{Name: Name, Op: core.GateUpSwiGLU, Version: Version,
		Summary: "the linear layers of gate and up, and swiglu", DTypes: dtypes, Backward: true}
	if k.Multiply == nil { // which adds a sum once, if it has few terms
		i.Adds, i.AddsTokens = adds, vector.StepTerms
		i.Keeps = true
	}
	return i
}

// Supports implements core.Kernel: silu, all else that the op has, in float32, bfloat16 and float16, and
// weights in int8 as well.
func (k *Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }

// part is a weight: that of gate or of up, or of both. Its columns of g and u begin at first.
type part struct {
	weight      vector.Matrix
	frozen      []core.Tensor // the inputs that it is made of, where it stays as it is from call to call
	gradient    []float32     // nil without one
	add         bool          // to what is there
	first, rows int
}

// parts returns the weights of a call.
func parts(c *core.Call) (all []part) {
	names, rows := []string{"gate", "up"}, c.Facts.Intermediate
	if c.Facts.Layout == core.Packed {
		names, rows = []string{"gate_up"}, 2*rows
	}
	for i, name := range names {
		p := part{first: i * rows, rows: rows}
		w := c.Input(name)
		from := []core.Tensor{w}
		if w.DType == core.Int8 {
			from = append(from, c.Input(name+"_scale"))
			p.weight = vector.Matrix{Int8: w.Int8s(), Scale: from[1].Float32s(), Stride: c.Facts.Dim}
		} else {
			p.weight = vector.MatrixOf(w)
		}
		if c.Facts.Frozen {
			p.frozen = from
		}
		if c.Pass == core.Backward && !c.Facts.Frozen {
			p.gradient, p.add = c.Output("d"+name).Float32s(), c.Adding("d"+name)
		}
		all = append(all, p)
	}
	return all
}

// slice returns rows [lo, hi) of a tensor of tokens.
func slice(x core.Tensor, lo, hi int) core.Tensor {
	return x.Slice(lo*x.Shape[1], hi*x.Shape[1], hi-lo, x.Shape[1])
}
