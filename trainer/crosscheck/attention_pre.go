package crosscheck

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// comparedTokens is how many tokens of a call of attention_pre are compared, besides h: the norms of heads leave no
// sum along a direction, so that a token takes all of its products.
const comparedTokens = 16

// beforeAttention is one call of attention_pre, and some of its tokens.
type beforeAttention struct {
	c      *core.Call
	f      core.Facts
	tokens []int     // those that are compared
	n      []float32 // the norm of them
	size   []float64 // of each: its Euclidean norm, and how much of that it may err by
	lost   []float64
}

func attentionPre(c *core.Call) (found []worst) {
	b := &beforeAttention{c: c, f: c.Facts}
	h := c.Input("x").Float32s()
	if b.f.Residual {
		found, h = sums(c), c.Output("h").Float32s()
	}
	for i := range min(c.Tokens(), comparedTokens) {
		b.tokens = append(b.tokens, i*c.Tokens()/min(c.Tokens(), comparedTokens))
	}
	b.normed(h)
	for _, part := range []string{"q", "k", "v"} {
		y, limits := b.product(part)
		if part != "v" {
			b.heads(part, y, limits)
		}
		of, got := named(part), c.Output(part).Float32s()
		rows := len(y) / max(len(b.tokens), 1)
		for i, t := range b.tokens {
			for j := range rows {
				at := i*rows + j
				of[0].see(t*rows+j, float64(got[t*rows+j]), y[at], within(1, limits[at]))
			}
		}
		found = append(found, of...)
	}
	return found
}

// normed computes what the layers multiply, rounded as the op has it where that becomes int8.
func (b *beforeAttention) normed(h []float32) {
	d := b.f.Dim
	weight, bias := b.c.Input("norm_weight").Float32s(), b.bias("")
	for _, t := range b.tokens {
		row, n := h[t*d:][:d], make([]float32, d)
		r, relative := root(b.f, row)
		for i, v := range row {
			n[i] = float32(float32(v*float32(r)) * (weight[i] + float32(b.f.Offset)))
		}
		lost := relative * norm2(n)
		if bias != nil {
			simd.Add(n, n, bias)
		}
		if b.f.Scaling != "" {
			lost = 0 // or numbers in int8 would differ
		}
		b.n, b.size, b.lost = append(b.n, n...), append(b.size, norm2(n)), append(b.lost, lost)
	}
}

// bias is that of a norm, nil for none.
func (b *beforeAttention) bias(norm string) []float32 {
	if !b.f.NormBias {
		return nil
	}
	return b.c.Input(norm + "norm_bias").Float32s()
}

// product returns a layer's output for the tokens, and what its elements may err by.
func (b *beforeAttention) product(part string) (wide, limits []float64) {
	weight, d := b.c.Input(part+"_weight"), b.f.Dim
	rows := weight.Shape[0]
	y := make([]float32, len(b.tokens)*rows)
	var bias []float32
	if b.f.Bias {
		bias = b.c.Input(part + "_bias").Float32s()
	}
	var norms []float64
	switch b.f.Scaling {
	case "":
		var m simd.Matrix
		m, norms = storedWeight(b.c, part+"_weight")
		simd.Multiply(simd.Product{M: len(b.tokens), N: rows, K: d, A: dense(b.n, d), B: m, TransB: true, Dots: true, C: y,
			StrideC: rows})
	case core.StaticScaling:
		p := simd.W8A8{M: len(b.tokens), N: rows, K: d, X: b.n, Weight: weight.Int8s(), Y: y, Static: true,
			InputScale: b.c.Input("input_scale").Float32s()[0], InputOffset: b.c.Input("input_offset").Int32s()[0],
			QuantBias: b.c.Input(part + "_quant_bias").Int32s(), Scale: b.c.Input(part + "_deq_scale").Float32s()}
		p.Multiply()
	default:
		p := simd.W8A8{M: len(b.tokens), N: rows, K: d, X: b.n, Weight: weight.Int8s(), Y: y,
			Scale: b.c.Input(part + "_weight_scale").Float32s()}
		p.Multiply()
	}
	for i, v := range y {
		want, limit := float64(v), few*math.Abs(float64(v))
		if norms != nil {
			limit = ((few+2*rounding(d))*b.size[i/rows] + b.lost[i/rows]) * norms[i%rows]
		}
		if bias != nil {
			add := float64(bias[i%rows])
			want, limit = want+add, limit+few*math.Abs(add)
		}
		wide, limits = append(wide, want), append(limits, limit)
	}
	return wide, limits
}

// heads norms the heads of q or k, and rotates them, with what they may err by.
func (b *beforeAttention) heads(part string, y, limits []float64) {
	d := b.f.HeadDim
	width := len(y) / max(len(b.tokens), 1)
	positions := b.c.Input("positions").Int32s()
	for at := 0; at < len(y); at += d {
		head, limits := y[at:][:d], limits[at:][:d]
		if b.f.QKNorm {
			b.normHead(part+"_", head, limits)
		}
		b.turn(int(positions[b.tokens[at/width]]), head, limits)
	}
}

// normHead: an error moves its element by rstd, and all others through rstd, which moves by the mean of n times that.
func (b *beforeAttention) normHead(norm string, y, limits []float64) {
	weight, bias := b.c.Input(norm+"norm_weight").Float32s(), b.bias(norm)
	mean := 0.0
	for _, v := range y {
		mean += v * v / float64(len(y))
	}
	rstd, moved := 1/math.Sqrt(mean+b.f.Eps), few+rounding(len(y))+tiny/(mean+b.f.Eps)
	for i, v := range y {
		moved += math.Abs(v) * rstd * limits[i] * rstd / float64(len(y))
	}
	for i, v := range y {
		gain := float64(weight[i]) + float64(b.f.Offset)
		y[i] = v * rstd * gain
		limits[i] = rstd*math.Abs(gain)*limits[i] + moved*math.Abs(y[i])
		if bias != nil {
			y[i] += float64(bias[i])
			limits[i] += few * math.Abs(float64(bias[i]))
		}
	}
}

// turn rotates a head by the angles of its position.
func (b *beforeAttention) turn(position int, y, limits []float64) {
	half := b.f.RotaryDim / 2
	cos, sin := b.c.Input("cos").Float32s()[position*half:], b.c.Input("sin").Float32s()[position*half:]
	for i := range half {
		p, q := i, i+half
		if b.f.Pairing == core.Interleaved {
			p, q = 2*i, 2*i+1
		}
		co, si := float64(cos[i]), float64(sin[i])
		first, second := y[p], y[q]
		sizes := [2]float64{limits[p] + 4*unit*math.Abs(first), limits[q] + 4*unit*math.Abs(second)}
		y[p], y[q] = first*co-second*si, second*co+first*si
		limits[p] = math.Abs(co)*sizes[0] + math.Abs(si)*sizes[1]
		limits[q] = math.Abs(co)*sizes[1] + math.Abs(si)*sizes[0]
	}
}
