package models_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// TestAnAdapterIsMergedBackIntoWhatBitsAndBytesQuantised: the folder loads again as it was merged, to the bit, and what is
// said of the rounding is what the weights lost.
func TestAnAdapterIsMergedBackIntoWhatBitsAndBytesQuantised(t *testing.T) {
	four, _ := fourBitFolder(t, nil)
	eight, layer := eightBitFolder(t)
	for dir, c := range map[string]struct {
		name  string
		least float64 // of what is lost, as a share of the sums
		most  float64
	}{
		four:  {"model.layers.0.self_attn.k_proj", 0.02, 0.15},
		eight: {layer, 0.0005, 0.02},
	} {
		m := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: 2}})
		for _, p := range m.Trainable() {
			for i := range p.Tensor.Float32s() {
				p.Tensor.Float32s()[i] = float32(math.Sin(float64(i))) / 8
			}
			p.Written()
		}
		sum := adapted(t, m, c.name)
		if err := m.Merge(); err != nil {
			t.Fatal(err)
		}
		stored := weightOf(t, m, c.name+".weight")
		var lost, all float64
		for i, s := range sum {
			lost += math.Pow(float64(s)-float64(stored[i]), 2)
			all += float64(s) * float64(s)
		}
		share, said := math.Sqrt(lost/all), m.Rounding.Share()
		if m.Rounding.Weights != 1 || !(math.Abs(share-said) <= 1e-3*share) || share < c.least || share > c.most {
			t.Errorf("%s: %d weights lost %g, and it is said %g", c.name, m.Rounding.Weights, share, said)
		}
		saved, err := m.Saved()
		if err != nil {
			t.Fatal(err)
		}
		again := loadWith(t, folder(t, saved.Config, saved.Weights), models.LoadOptions{LoRA: lora.Config{Rank: 2}})
		if got := weightOf(t, again, c.name+".weight"); !(distance(got, stored) <= 2e-7) { // of 8 bits: a scale times 127, and by it
			t.Errorf("%s: what was saved differs by %.3g", c.name, distance(got, stored))
		}
		for _, p := range again.Params() {
			if p.Name == c.name+".weight" && p.Tensor.DType != core.NF4 && p.Tensor.DType != core.Int8 {
				t.Errorf("%s is %s", p.Name, p.Tensor.DType)
			}
		}
		want, _ := evaluate(t, m)
		if got, _ := evaluate(t, again); !(distance(got, want) <= 1e-6) {
			t.Errorf("%s: the logits differ by %.3g", c.name, distance(got, want))
		}
	}
}

// eightBitFolder is a model one of whose layers is int8, and the layer's path.
func eightBitFolder(t *testing.T) (dir, layer string) {
	t.Helper()
	m := newModel(t, family("llama"), 1)
	tensors := plainTensors(t, m)
	layer = "model.layers.1.mlp.down_proj"
	shape := tensors[layer+".weight"].Shape
	q, scb := core.NewTensor(core.Int8, shape...), core.NewTensor(core.Float32, shape[0])
	for i := range q.Int8s() {
		q.Int8s()[i], scb.Float32s()[i/shape[1]] = int8(i*7%255-127), 0.5+float32(i/shape[1])/8
	}
	tensors[layer+".weight"], tensors[layer+".SCB"] = q, scb
	tensors[layer+".weight_format"] = raw(core.Shape{}, 0)
	config := map[string]any{"quant_method": "bitsandbytes", "load_in_8bit": true}
	return bnbFolder(t, m.RawConfig, config, tensors, layer+".weight_format"), layer
}

// adapted returns a weight plus what its adapter adds, in float64.
func adapted(t *testing.T, m *models.Model, module string) []float64 {
	t.Helper()
	tensors, err := m.Adapter.Named()
	if err != nil {
		t.Fatal(err)
	}
	factor := func(matrix string) core.Tensor {
		name := fmt.Sprintf("base_model.model.%s.lora_%s.weight", module, matrix)
		i := slices.IndexFunc(tensors, func(n checkpoint.Named) bool { return n.Name == name })
		if i < 0 {
			t.Fatalf("the adapter has no %s", name)
		}
		return tensors[i].Tensor
	}
	a, b := factor("A"), factor("B")
	r, in := a.Shape[0], a.Shape[1]
	var sum []float64
	for i, w := range weightOf(t, m, module+".weight") {
		s := float64(w)
		for k := range r {
			s += 2 * float64(b.Float32s()[i/in*r+k]) * float64(a.Float32s()[k*in+i%in]) // alpha is twice the rank
		}
		sum = append(sum, s)
	}
	return sum
}
