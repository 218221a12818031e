//go:build ignore

package core

// RoPE rotates the first rotary_dim elements of each head of q and k.
const RoPE Op = "rope"

var rope = contract{op: RoPE,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.HeadDim > 0 && f.Heads > 0 && f.KVHeads > 0, "head_dim, heads and kv_heads must be positive")
		need(f.RotaryDim > 0 && f.RotaryDim%2 == 0 && f.RotaryDim <= f.HeadDim,
			"rotary_dim must be even and within head_dim")
		need(f.Pairing == Half || f.Pairing == Interleaved, "pairing must be half or interleaved")
	},
	signature: ropeSignature,
	work: func(pass Pass, f Facts, t, _ float64) Work { // a pair takes four multiplications and two additions
		return elementwise(pass, t*float64(f.Heads+f.KVHeads)*float64(f.RotaryDim), 3, 3)
	},
}

func ropeSignature(pass Pass, f Facts) Signature {
	q := Arg{Name: "q", DType: f.DType, Shape: Shape{DimT, f.Heads, f.HeadDim}}
	k := Arg{Name: "k", DType: f.DType, Shape: Shape{DimT, f.KVHeads, f.HeadDim}}
	tables := []Arg{
		{Name: "cos", DType: Float32, Shape: Shape{DimP, f.RotaryDim / 2}},
		{Name: "sin", DType: Float32, Shape: Shape{DimP, f.RotaryDim / 2}},
		{Name: "positions", DType: Int32, Shape: Shape{DimT}, Points: Points{To: DimP, Of: "the tables have %d rows"}},
	}
	if pass == Forward {
		return Signature{In: append([]Arg{q, k}, tables...), Out: []Arg{named(q, "q_out"), named(k, "k_out")}}
	}
	return Signature{
		In:  append([]Arg{named(q, "dq_out"), named(k, "dk_out")}, tables...),
		Out: []Arg{named(q, "dq"), named(k, "dk")},
	}
}
