// Package cudalinear is the kernels of the plugin cuda_linear, for the ops linear, qkv and gate_up_swiglu, with all
// products on a device. T tokens, D dim; part p of a layer has N rows of weight:
//
//	y_p = x weight_p^T (+ bias_p)
//	dx = sum over p of dy_p weight_p;  dweight_p = dy_p^T x;  dbias_p = sum over T of dy_p
//
// A call copies to the device what it reads, and back what it writes; what lies between stays there. Weights stay as
// long as their contents: trained ones for a step, forward and backward, frozen ones for all. They are float32 there,
// whatever they are stored as. Sums of rows, biases, swiglu and what is rounded to storage are the host's, on the way.
package cudalinear

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/plugins/cuda_linear/cuda"
)

// Name and Version are the plugin's, and of the kernels when they are linked into a program.
const (
	Name    = "cuda_linear"
	Version = "0.1.0"
)

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16, core.Int8}

// grain is how many elements make it worth another thread.
const grain = 1 << 14

// Kernels returns kernels that compute on the device.
func Kernels(d *cuda.Device) []core.Kernel {
	return []core.Kernel{newLinear(d), newQKV(d), newGateUp(d)}
}

// kernel is what all of them have in common.
type kernel struct {
	device *cuda.Device
	info   core.Info
}

func newKernel(d *cuda.Device, op core.Op, summary string, adds ...string) kernel {
	return kernel{d, core.Info{Name: Name, Op: op, Version: Version, Summary: summary + ", by " + d.String(),
		DTypes: dtypes, Backward: true, Adds: adds, Keeps: true}}
}

// Info implements core.Kernel.
func (k *kernel) Info() core.Info { return k.info }

// Supports implements core.Kernel: all that the op has, in any storage.
func (k *kernel) Supports(f core.Facts) error { return k.info.Supports(f) }

// part is a weight of a call.
type part struct {
	name   string // of the input
	rows   int
	weight vector.Matrix
	inputs []core.Tensor // that the weight is made of
}

// partOf returns the part whose weight is the input of that name. Where it is in NF4, it is q that is used for it.
func partOf(c *core.Call, name string, q *vector.NF4) part {
	w := c.Input(name)
	p := part{name: name, rows: w.Shape[0], inputs: []core.Tensor{w}}
	switch w.DType {
	case core.NF4:
		p.inputs = append(p.inputs, c.Input(name+"_absmax"), c.Input(name+"_scale"))
		p.weight = vector.NF4Of(q, w, p.inputs[1], p.inputs[2])
	case core.Int8:
		p.inputs = append(p.inputs, c.Input(name+"_scale"))
		p.weight = vector.Matrix{Int8: w.Int8s(), Scale: p.inputs[1].Float32s(), Stride: c.Facts.Dim}
	default:
		p.weight = vector.MatrixOf(w)
	}
	return p
}

// pass is a call on the device.
type pass struct {
	*cuda.Pass
	*core.Call
	T, D int
}

// run does the work of a call. Without tokens there is none: gradients that are not added to become zero.
func (k *kernel) run(c *core.Call, work func(p pass)) error {
	if c.Tokens() == 0 {
		for i, out := range c.Out {
			if !c.Keeps(i) {
				clear(out.Data)
			}
		}
		return nil
	}
	return k.device.Do(func(p *cuda.Pass) { work(pass{p, c, c.Tokens(), c.Facts.Dim}) })
}

// load copies an input to the device, whose rows are those of its last axis.
func (p pass) load(name string) cuda.Matrix {
	return p.loadMatrix(vector.MatrixOf(p.Input(name)), p.Input(name))
}

// loadMatrix is load of an input as an operand: its content, if that has a number, stays on the device.
func (p pass) loadMatrix(m vector.Matrix, inputs ...core.Tensor) cuda.Matrix {
	rows, cols := inputs[0].Shape[0], inputs[0].Shape[1]
	return p.Keep(rows, cols, func(dst []float32, from int) { m.Load(dst, cols, from) }, inputs...)
}

// layer is a part on the device.
type layer struct {
	part
	weight cuda.Matrix
	y      cuda.Matrix // what it computes, or its gradient
}

// layers copies weights to the device.
func (p pass) layers(parts ...part) []layer {
	all := make([]layer, len(parts))
	for i, q := range parts {
		all[i] = layer{part: q, weight: p.loadMatrix(q.weight, q.inputs...)}
	}
	return all
}

// forward computes y = x weight^T of each.
func (p pass) forward(x cuda.Matrix, all []layer) {
	for _, l := range all {
		p.Multiply(cuda.Product{M: p.T, N: l.rows, K: p.D, A: x, B: l.weight, TransB: true, C: l.y, Alpha: 1})
	}
}

// backward computes the gradients of x, which it returns, and of the weights, unless they are frozen: then x may be
// nothing.
func (p pass) backward(x cuda.Matrix, all []layer) (dx cuda.Matrix) {
	dx = p.New(p.T, p.D)
	for i, l := range all {
		p.Multiply(cuda.Product{M: p.T, N: p.D, K: l.rows, A: l.y, B: l.weight, C: dx, Alpha: 1, Accumulate: i > 0})
	}
	if p.Facts.Frozen {
		return dx
	}
	for _, l := range all {
		dw := p.New(l.rows, p.D)
		p.Multiply(cuda.Product{M: l.rows, N: p.D, K: p.T, A: l.y, TransA: true, B: x, C: dw, Alpha: 1})
		p.store(dw, l.rows, "d"+l.name)
	}
	return dx
}

// xOfBackward is x where backward has it.
func (p pass) xOfBackward(needed bool) (x cuda.Matrix) {
	if needed || !p.Facts.Frozen {
		x = p.load("x")
	}
	return x
}

// store copies a matrix to an output, rounded to its storage, or adds it to what is there.
func (p pass) store(m cuda.Matrix, rows int, name string) {
	p.storeWith(m, rows, name, nil)
}

// storeWith is store of a matrix to whose rows a bias is added first, unless that is nil.
func (p pass) storeWith(m cuda.Matrix, rows int, name string, bias []float32) {
	out, add := p.Output(name), p.Adding(name)
	p.Store(m, rows, func(v []float32, from int) {
		switch {
		case add:
			to := out.Float32s()[from:][:len(v)]
			vector.Add(to, to, v)
			return
		case bias != nil:
			addBias(v, bias, from)
		}
		vector.Store(out, v, from)
	})
}

// bias returns that of a name, nil where there is none.
func (p pass) bias(name string) []float32 {
	if !p.Facts.Bias {
		return nil
	}
	return p.Input(name).Float32s()
}

// addBias adds a bias to elements of a matrix with so many columns, from the one of that number on.
func addBias(v, bias []float32, from int) {
	for at := from % len(bias); len(v) > 0; at = 0 {
		n := min(len(v), len(bias)-at)
		vector.Add(v[:n], v[:n], bias[at:][:n])
		v = v[n:]
	}
}
