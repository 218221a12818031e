package parity_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// oracle computes a model in float64, one token after the other, with loops over the tensors of its files. It is
// written from what the families are published as, and knows nothing of trainer/nn.
type oracle struct {
	config map[string]any
	w      map[string][]float64
	like   likeness
}

// likeness is what a family's decoder is, where it differs from another.
type likeness struct {
	norms    [4]string // before and after attention, before and after the block; "" for none
	biased   []string  // layers that have a bias
	offset   float64   // added to the weights of norms
	eps      float64   // of norms
	embed    func(o *oracle) float64
	residual func(o *oracle) float64
	logits   func(o *oracle, v []float64)
	attend   func(o *oracle, layer int, x [][]float64) [][]float64
	feed     func(o *oracle, layer int, x []float64) []float64
}

func (o *oracle) number(field string, otherwise float64) float64 {
	if v, ok := o.config[field].(float64); ok {
		return v
	}
	return otherwise
}

func (o *oracle) count(field string, otherwise int) int {
	return int(o.number(field, float64(otherwise)))
}

func (o *oracle) tensor(name string) []float64 {
	w, ok := o.w[name]
	if !ok {
		panic("the files have no " + name)
	}
	return w
}

// linear is W x of the layer with that name, and + b if the family has one there.
func (o *oracle) linear(name string, x []float64) []float64 {
	y := multiply(o.tensor(name+".weight"), x)
	if !slices.Contains(o.like.biased, name[strings.LastIndexByte(name, '.')+1:]) {
		if _, has := o.w[name+".bias"]; has {
			panic("the files have a bias of " + name)
		}
		return y
	}
	for i, b := range o.tensor(name + ".bias") {
		y[i] += b
	}
	return y
}

func multiply(w, x []float64) []float64 {
	y := make([]float64, len(w)/len(x))
	for i := range y {
		for j, v := range x {
			y[i] += w[i*len(x)+j] * v
		}
	}
	return y
}

// norm is the root mean square norm with the weights of that name; "" gives x.
func (o *oracle) norm(name string, x []float64) []float64 {
	if name == "" {
		return x
	}
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	r, y := 1/math.Sqrt(sum/float64(len(x))+o.like.eps), make([]float64, len(x))
	for i, w := range o.tensor(name + ".weight") {
		y[i] = x[i] * r * (o.like.offset + w)
	}
	return y
}

// heads cuts a vector into heads of n elements.
func heads(x []float64, n int) (all [][]float64) {
	for h := range slices.Chunk(x, n) {
		all = append(all, h)
	}
	return all
}

// rotate turns the pairs of a head by position * inv, halves with each other or neighbours.
func rotate(x []float64, position int, inv []float64, neighbours bool) {
	for i, f := range inv {
		a, b := i, i+len(inv)
		if neighbours {
			a, b = 2*i, 2*i+1
		}
		s, c := math.Sincos(float64(position) * f)
		x[a], x[b] = x[a]*c-x[b]*s, x[b]*c+x[a]*s
	}
}

// frequencies of a head of n elements.
func frequencies(base float64, n int) (inv []float64) {
	for i := 0; i < n; i += 2 {
		inv = append(inv, math.Pow(base, -float64(i)/float64(n)))
	}
	return inv
}

// scores says how attention weighs.
type scores struct {
	scale, cap float64   // cap is 0 for none
	window     int       // 0 for none
	sinks      []float64 // of each head; nil for none
}

// attention is that of all tokens: q, k and v have heads of each; several heads of q share one of k and v.
func attention(q, k, v [][][]float64, s scores) (y [][]float64) {
	for t := range q {
		var row []float64
		for h, query := range q[t] {
			g := h / (len(q[t]) / len(k[t]))
			first := 0
			if s.window > 0 {
				first = max(0, t-s.window+1)
			}
			var p []float64
			for j := first; j <= t; j++ {
				score := 0.0
				for i, a := range query {
					score += a * k[j][g][i]
				}
				score *= s.scale
				if s.cap > 0 {
					score = s.cap * math.Tanh(score/s.cap)
				}
				p = append(p, score)
			}
			if s.sinks != nil {
				p = append(p, s.sinks[h])
			}
			softmax(p)
			out := make([]float64, len(v[0][0]))
			for j := first; j <= t; j++ {
				for i, value := range v[j][g] {
					out[i] += p[j-first] * value
				}
			}
			row = append(row, out...)
		}
		y = append(y, row)
	}
	return y
}

func softmax(x []float64) {
	most, sum := slices.Max(x), 0.0
	for i := range x {
		x[i] = math.Exp(x[i] - most)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

// gated is down(act(gate(x)) * up(x)) of the layers below a path.
func (o *oracle) gated(path string, x []float64, act func(float64) float64, names ...string) []float64 {
	if names == nil {
		names = []string{"gate_proj", "up_proj", "down_proj"}
	}
	h, up := o.linear(path+"."+names[0], x), o.linear(path+"."+names[1], x)
	for i := range h {
		h[i] = act(h[i]) * up[i]
	}
	return o.linear(path+"."+names[2], h)
}

// best returns the places of the k largest.
func best(x []float64, k int) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case x[a] > x[b]:
			return -1
		case x[a] < x[b]:
			return 1
		}
		return 0
	})
	return order[:k]
}

// forward returns the logits after each token.
func (o *oracle) forward(ids []int32) (logits [][]float64) {
	d, table := o.count("hidden_size", 0), o.tensor("model.embed_tokens.weight")
	var h [][]float64
	for _, id := range ids {
		row := slices.Clone(table[int(id)*d:][:d])
		for i := range row {
			row[i] *= o.like.embed(o)
		}
		h = append(h, row)
	}
	add := func(t int, norm string, y []float64) {
		for i, v := range o.norm(norm, y) {
			h[t][i] += o.like.residual(o) * v
		}
	}
	for layer := range o.count("num_hidden_layers", 0) {
		name := func(i int) string {
			if o.like.norms[i] == "" {
				return ""
			}
			return fmt.Sprintf("model.layers.%d.%s", layer, o.like.norms[i])
		}
		var x [][]float64
		for _, row := range h {
			x = append(x, o.norm(name(0), row))
		}
		for t, y := range o.like.attend(o, layer, x) {
			add(t, name(1), y)
		}
		for t, row := range h {
			add(t, name(3), o.like.feed(o, layer, o.norm(name(2), row)))
		}
	}
	head := o.w["lm_head.weight"]
	if head == nil {
		head = table
	}
	for _, row := range h {
		v := multiply(head, o.norm("model.norm", row))
		o.like.logits(o, v)
		logits = append(logits, v)
	}
	return logits
}

// loss is the mean over all tokens but the last of what the next costs.
func (o *oracle) loss(ids []int32) float64 {
	sum := 0.0
	logits := o.forward(ids)
	for t, row := range logits[:len(ids)-1] {
		softmax(row)
		sum -= math.Log(row[ids[t+1]])
	}
	return sum / float64(len(ids)-1)
}
