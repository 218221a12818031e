package forecast_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// alike are layers that are alike.
const alike = `{"model_type": "llama", "vocab_size": 50, "hidden_size": 32, "intermediate_size": 64,
	"num_hidden_layers": 6, "num_attention_heads": 4, "max_position_embeddings": 64}`

func selective(t *testing.T, m *models.Model, r forecast.Run, limit int64) (*forecast.Forecast, []string, float64) {
	t.Helper()
	f, parts, longer, err := forecast.Selective(m, autograd.Heap{}, r, limit)
	if err != nil {
		t.Fatal(err)
	}
	return f, parts, longer
}

// again is a run in which parts of layers are computed again.
func again(r forecast.Run, parts ...string) forecast.Run {
	r.GradientCheckpointing, r.CheckpointParts = len(parts) > 0, parts
	return r
}

// TestAsLittleAsFits: for each limit from what all layers take to what none takes, the run fits, in no more time than
// with as many whole layers, from the first on, as are enough; and less is computed again the higher the limit is.
func TestAsLittleAsFits(t *testing.T) {
	m, err := models.New([]byte(alike), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	r := forecast.Run{Batch: 4, Seq: 64, Evaluates: true}
	none, parts, longer := selective(t, m, r, 1<<40)
	if parts != nil || longer != 0 {
		t.Errorf("parts %v for %g more time, and the run fits without", parts, longer)
	}
	most, all, longest := selective(t, m, r, 1)
	if longest < 0.1 || longest > 0.34 {
		t.Errorf("where nothing fits, parts %v take %g more time", all, longest)
	}
	step := func(f *forecast.Forecast) time.Duration {
		c := ceiling.Ceilings{Threads: 1, Bandwidth: 20e9, Products: 100e9}
		d, _ := f.Step(c, c)
		return d
	}
	var whole []*forecast.Forecast // with so many of the first layers
	var layers []string
	for n := range 7 {
		whole = append(whole, forecastOf(t, m, again(r, layers...)))
		layers = append(layers, nn.LayerPart(n, ""))
	}
	if fewest := whole[6].Bytes(); most.Bytes() > fewest {
		t.Errorf("%d bytes at least, and %d with all layers", most.Bytes(), fewest)
	}
	before, sets, faster := longest, map[string]bool{}, 0
	for limit := most.Bytes(); limit <= none.Bytes(); limit += (none.Bytes() - most.Bytes()) / 20 {
		f, parts, longer := selective(t, m, r, limit)
		if got := forecastOf(t, m, again(r, parts...)).Bytes(); f.Bytes() > limit || got != f.Bytes() {
			t.Errorf("%d bytes with %v, more than %d, or not the %d that they take", f.Bytes(), parts, limit, got)
		}
		if longer > before {
			t.Errorf("%v take %g more time for %d bytes, and %g were enough for less", parts, longer, limit, before)
		}
		before, sets[strings.Join(parts, " ")] = longer, true
		for _, w := range whole {
			if w.Bytes() <= limit {
				if step(f) > step(w) {
					t.Errorf("%d bytes: %v take %v, and so many whole layers %v", limit, parts, step(f), step(w))
				}
				if step(f) < step(w) {
					faster++
				}
				break
			}
		}
	}
	if len(sets) < 8 || faster < 5 {
		t.Errorf("sets %v: hardly a choice, or %d of them faster than layers", sets, faster)
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
	wide := forecastOf(t, m, again(r, "layers.2.mlp"))
	if narrow := forecastOf(t, m, again(r, "layers.0", "layers.1")); narrow.Bytes() <= wide.Bytes() {
		t.Fatalf("%d bytes with the narrow layers, %d with a wide one: nothing is tested", narrow.Bytes(), wide.Bytes())
	}
	if _, parts, _ := selective(t, m, r, (none.Bytes()+wide.Bytes())/2); !slices.Equal(parts, []string{"layers.2.mlp"}) {
		t.Errorf("parts %v, want the MLP of layer 2 alone", parts)
	}
}
