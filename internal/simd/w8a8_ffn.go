package simd

// W8A8FFN is a feed-forward block that multiplies int8 by int8, the op shared_expert_ffn:
// y = down(silu(gate x) * (up x)), in which x and what down multiplies become int8 a row at a time. It computes what three
// W8A8 with swiglu between them do, to the bit.
type W8A8FFN struct {
	M, D, I                       int
	X                             []float32 // [M, D]
	Gate, Up                      []int8    // [I, D]
	Down                          []int8    // [D, I]
	GateScale, UpScale, DownScale []float32 // of the rows of the weights
	Y                             []float32 // [M, D]
}

// Multiply computes Y. An int32 holds the sums as long as D and I are below 2^17.
func (p *W8A8FFN) Multiply() {
	if len(p.X) < p.M*p.D || len(p.Gate) < p.I*p.D || len(p.Up) < p.I*p.D || len(p.Down) < p.D*p.I || len(p.Y) < p.M*p.D ||
		len(p.GateScale) < p.I || len(p.UpScale) < p.I || len(p.DownScale) < p.D {
		panic("simd: a slice of a feed-forward block in int8 is shorter than its sizes say")
	}
	f := w8a8FFNs.get()
	if n := p.M * p.I; cap(f.h) < n {
		f.h, f.u = make([]float32, n), make([]float32, n)
	}
	f.h, f.u = f.h[:p.M*p.I], f.u[:p.M*p.I]
	f.products = [3]W8A8{
		{M: p.M, N: p.I, K: p.D, X: p.X, Weight: p.Gate, Scale: p.GateScale, Y: f.h},
		{M: p.M, N: p.I, K: p.D, X: p.X, Weight: p.Up, Scale: p.UpScale, Y: f.u},
		{M: p.M, N: p.D, K: p.I, X: f.h, Weight: p.Down, Scale: p.DownScale, Y: p.Y},
	}
	f.gate.p, f.up.p, f.down.p = &f.products[0], &f.products[1], &f.products[2]
	f.gate.quantised.grow(p.M, p.D)
	Parallel(p.M, max(1, grainInt8/p.D), f.quantiseX)
	f.up.quantised = f.gate.quantised // read only from here on
	Parallel(p.I, max(1, grainInt8/(2*p.D)), f.hidden)
	f.down.quantised.grow(p.M, p.I)
	Parallel(p.M, max(1, grainInt8/p.I), f.quantiseH)
	Parallel(p.D, max(1, grainInt8/p.I), f.columns)
	f.products, f.up.quantised = [3]W8A8{}, quantised{}
	w8a8FFNs.put(f)
}

// w8a8FFN is what a block needs beside its operands.
type w8a8FFN struct {
	products                              [3]W8A8
	gate, up, down                        w8a8
	h, u                                  []float32 // [M, I]
	quantiseX, hidden, quantiseH, columns func(lo, hi int)
}

var w8a8FFNs = stock[w8a8FFN]{make: func() *w8a8FFN {
	f := &w8a8FFN{}
	f.quantiseX, f.hidden = f.gate.quantiseRows, f.hiddenColumns
	f.quantiseH, f.columns = f.down.quantiseRows, f.down.columns
	return f
}}

// hiddenColumns computes columns [lo, hi) of gate x, of up x, and of what is made of both in the place of the first.
func (f *w8a8FFN) hiddenColumns(lo, hi int) {
	f.gate.columns(lo, hi)
	f.up.columns(lo, hi)
	p := f.gate.p
	for r := range p.M {
		h := f.h[r*p.N+lo : r*p.N+hi]
		active.swiglu(h, h, f.u[r*p.N+lo:r*p.N+hi])
	}
}
