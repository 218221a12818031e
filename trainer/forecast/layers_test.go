package forecast_test

import (
	"slices"
	"testing"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/models"
)

// alike are layers that are alike.
const alike = `{"model_type": "llama", "vocab_size": 50, "hidden_size": 32, "intermediate_size": 64,
	"num_hidden_layers": 6, "num_attention_heads": 4, "max_position_embeddings": 64}`

func selective(t *testing.T, m *models.Model, r forecast.Run, limit int64) (*forecast.Forecast, []int, float64) {
	t.Helper()
	f, layers, longer, err := forecast.Selective(m, autograd.Heap{}, r, limit)
	if err != nil {
		t.Fatal(err)
	}
	return f, layers, longer
}

// TestAsFewLayersAsFit: for each limit from what all layers take to what none takes, the run fits, and with a layer
// less it does not.
func TestAsFewLayersAsFit(t *testing.T) {
	m, err := models.New([]byte(alike), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	r := forecast.Run{Batch: 4, Seq: 64, Evaluates: true}
	none, layers, longer := selective(t, m, r, 1<<40)
	if layers != nil || longer != 0 {
		t.Errorf("layers %v for %g more time, and the run fits without", layers, longer)
	}
	most, all, longest := selective(t, m, r, 1)
	if !slices.Equal(all, []int{0, 1, 2, 3, 4, 5}) || longest < 0.1 || longest > 0.34 {
		t.Errorf("where nothing fits, layers %v take %g more time", all, longest)
	}
	sizes := map[int]int64{}
	for limit := most.Bytes(); limit <= none.Bytes(); limit += (none.Bytes() - most.Bytes()) / 20 {
		f, layers, _ := selective(t, m, r, limit)
		n := len(layers)
		if !slices.Equal(layers, all[:n]) {
			t.Fatalf("layers %v are not the first", layers)
		}
		if f.Bytes() > limit {
			t.Errorf("%d bytes with layers %v, more than %d", f.Bytes(), layers, limit)
		}
		if n > 1 {
			less := r
			less.GradientCheckpointing, less.CheckpointLayers = true, layers[:n-1]
			if got := forecastOf(t, m, less); got.Bytes() <= limit {
				t.Errorf("layers %v, but %d of them fit into %d bytes, too", layers, n-1, limit)
			}
		}
		sizes[n] = f.Bytes()
	}
	if len(sizes) < 5 {
		t.Errorf("limits gave %v: hardly a choice", sizes)
	}
	for n := range 5 {
		if a, b := sizes[n], sizes[n+1]; a != 0 && b != 0 && b >= a {
			t.Errorf("%d bytes with %d layers, %d with one more", a, n, b)
		}
	}
}

// TestTheCheapestLayersAreComputedAgain: layers that are wide come after narrow ones, which would have to be computed
// again for little.
func TestTheCheapestLayersAreComputedAgain(t *testing.T) {
	const mixed = `{"model_type": "qwen3_moe", "vocab_size": 50, "hidden_size": 32, "intermediate_size": 8192,
		"head_dim": 8, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "num_experts": 4,
		"num_experts_per_tok": 2, "moe_intermediate_size": 16, "mlp_only_layers": [2, 3], "max_position_embeddings": 64}`
	m, err := models.New([]byte(mixed), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	r := forecast.Run{Batch: 4, Seq: 64}
	none, _, _ := selective(t, m, r, 1<<40)
	again := func(layers ...int) forecast.Run {
		r := r
		r.GradientCheckpointing, r.CheckpointLayers = true, layers
		return r
	}
	wide := forecastOf(t, m, again(2))
	if narrow := forecastOf(t, m, again(0, 1)); narrow.Bytes() <= wide.Bytes() {
		t.Fatalf("%d bytes with the narrow layers, %d with a wide one: nothing is tested", narrow.Bytes(), wide.Bytes())
	}
	if _, layers, _ := selective(t, m, r, (none.Bytes()+wide.Bytes())/2); !slices.Equal(layers, []int{2}) {
		t.Errorf("layers %v, want 2 alone", layers)
	}
}
