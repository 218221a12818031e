package golden

import (
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// packs are the matrices that some families keep as one, rows below rows, under its name.
var packs = map[string][]string{"qkv_proj": {"q_proj", "k_proj", "v_proj"}, "gate_up_proj": {"gate_proj", "up_proj"}}

// Packed returns the tensors of a model whose projections are apart, such as Llama's, or
// their gradients, as families keep them that pack them, such as Phi-3.
func Packed(apart []checkpoint.Named) []checkpoint.Named {
	var out []checkpoint.Named
	for _, n := range apart {
		whole, first := packOf(n.Name)
		if whole == "" {
			out = append(out, n)
			continue
		}
		if !first {
			continue
		}
		joined := core.Tensor{DType: n.Tensor.DType, Shape: slices.Clone(n.Tensor.Shape)}
		joined.Shape[0] = 0
		for _, part := range packs[whole] {
			name := strings.Replace(n.Name, packs[whole][0], part, 1)
			i := slices.IndexFunc(apart, func(n checkpoint.Named) bool { return n.Name == name })
			joined.Shape[0] += apart[i].Tensor.Shape[0]
			joined.Data = append(joined.Data, apart[i].Tensor.Data...)
		}
		out = append(out, checkpoint.Named{Name: strings.Replace(n.Name, packs[whole][0], whole, 1), Tensor: joined})
	}
	return out
}

// packOf returns the name of the matrix that a tensor is packed into, empty for none, and
// whether it comes first in there.
func packOf(name string) (whole string, first bool) {
	for whole, parts := range packs {
		for i, part := range parts {
			if strings.Contains(name, "."+part+".") {
				return whole, i == 0
			}
		}
	}
	return "", false
}
