package gguf

import (
	"slices"

	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

var gptOSSNames = map[string]string{"post_attention_layernorm": "post_attention_norm", "mlp.router": "ffn_gate_inp"}

// gptOSSCheck wants what llama.cpp's gpt-oss has besides experts.
func gptOSSCheck(m *models.Model) error {
	windowed, _ := gptOSSWindows(m)
	switch d := m.Decoder.Config(); {
	case !slices.Contains(windowed, 1):
		return unsaid("no layer has a sliding window, and llama.cpp's gpt-oss wants one in some layer")
	case !d.Attention.Bias:
		return unsaid("attention_bias is false: llama.cpp's gpt-oss always has biases of attention")
	case d.Tied:
		return unsaid("tie_word_embeddings is true: in llama.cpp's gpt-oss the head is a matrix of its own")
	}
	return nil
}

func gptOSSExperts(e nn.MoEConfig) error {
	const limit = 7
	if e.Limit != limit {
		return unsaid("swiglu_limit is %g: in llama.cpp it is %d", e.Limit, limit)
	}
	return nil
}

// gptOSSWindows returns 1 for each layer with a window, which need not be every other, and its size.
func gptOSSWindows(m *models.Model) (windowed []int32, size int) {
	d := m.Decoder.Config()
	windowed = make([]int32, d.Layers)
	for i := range windowed {
		if d.Window != nil && d.Window(i) > 0 {
			windowed[i], size = 1, d.Window(i)
		}
	}
	return windowed, size
}

func gptOSSKeys(set func(key string, value any), m *models.Model) {
	windowed, size := gptOSSWindows(m)
	set("attention.sliding_window", uint32(size))
	set("attention.sliding_window_pattern", windowed)
}

// gptOSSSplit takes the packed experts apart: their matrices have inputs for rows, and the columns of gate and up take
// turns, as the numbers of their biases do.
func gptOSSSplit(_ *models.Model, path string, shape []int) []part {
	switch path {
	case "self_attn.sinks":
		return []part{{name: "attn_sinks.weight", shape: shape}}
	case "mlp.experts.down_proj":
		return []part{{name: "ffn_down_exps.weight", shape: []int{shape[0], shape[2], shape[1]}, turned: true}}
	case "mlp.experts.down_proj_bias":
		return []part{{name: "ffn_down_exps.bias", shape: shape}}
	case "mlp.experts.gate_up_proj":
		half := part{shape: []int{shape[0], shape[2] / 2, shape[1]}, turned: true, cols: shape[1]}
		return half.inTurns(".weight")
	case "mlp.experts.gate_up_proj_bias":
		half := part{shape: []int{shape[0], shape[1] / 2}, cols: 1}
		return half.inTurns(".bias")
	}
	return nil
}

// inTurns returns the parts of gate and up, whose rows take turns.
func (p part) inTurns(end string) []part {
	gate, up := p, p
	gate.name, gate.at = "ffn_gate_exps"+end, func(row int) int { return 2 * row * p.cols }
	up.name, up.at = "ffn_up_exps"+end, func(row int) int { return (2*row + 1) * p.cols }
	return []part{gate, up}
}
