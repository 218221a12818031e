package bench_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/trainer/bench"
	"github.com/seed98097648/tune/trainer/lora"
)

// The model of these tests, and a batch of it.
const (
	layers, hidden, inter, heads, kv, head, vocab = 2, 16, 24, 4, 2, 8, 61
	rows, row, tokens                             = 2, 12, 24

	llama = `{"model_type": "llama", "vocab_size": 61, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
	"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
	"max_position_embeddings": 64, "torch_dtype": "bfloat16"}`
)

func llamaOptions(t *testing.T, kernels ...string) bench.Options {
	o := options(t, kernels...)
	o.ModelJSON, o.Batch, o.Seq = []byte(llama), rows, row
	return o
}

// matrix is a weight of a layer by its outputs and inputs.
type matrix struct{ out, in int }

var (
	attending = []matrix{{heads * head, hidden}, {kv * head, hidden}, {kv * head, hidden}} // q, k and v
	others    = []matrix{{hidden, heads * head}, {inter, hidden}, {inter, hidden}, {hidden, inter}}
)

// elements adds up the sizes of matrices.
func elements(ms []matrix) (n int) {
	for _, m := range ms {
		n += m.out * m.in
	}
	return n
}

// TestFloorOfFullTrainingIsThatOfAHandCount: every weight is needed three times, and every
// pair of a query and a key six times.
func TestFloorOfFullTrainingIsThatOfAHandCount(t *testing.T) {
	linear := layers * (elements(attending) + elements(others))
	pairs := layers * rows * row * (row + 1) / 2 * heads
	learned := rows * (row - 1)
	want := float64(3*2*tokens*linear + 3*2*learned*vocab*hidden + 6*2*pairs*head)
	o := llamaOptions(t, "none", "all")
	r := run(t, o)
	if r.Floor.Products != want {
		t.Errorf("%g operations, want %g", r.Floor.Products, want)
	}
	if got := r.Runs[0].Products.Flops - want; got != 3*2*rows*vocab*hidden {
		t.Errorf("the plain form has %g operations more than it needs, want those of the logits of the last position of "+
			"each row", got)
	}
	if trained := linear + 2*vocab*hidden + (2*layers+1)*hidden; r.Floor.Bytes != float64(32*trained) ||
		r.Config.Trained != trained {
		t.Errorf("the optimizer moves %g bytes for %d elements, want 32 for each of %d", r.Floor.Bytes, r.Config.Trained,
			trained)
	}

	o.GradientCheckpointing = true
	if again := run(t, o); again.Floor.Products != want {
		t.Errorf("with gradient checkpointing %g operations are needed, want as many as without", again.Floor.Products)
	}
	o.Accumulate = 3
	if thrice := run(t, o); thrice.Floor.Products != 3*want || thrice.Floor.Bytes != r.Floor.Bytes {
		t.Errorf("three batches a step need %g operations and %g bytes", thrice.Floor.Products, thrice.Floor.Bytes)
	}
}

// TestFloorOfLoRAIsThatOfAHandCount: a frozen weight has no gradient, and below the first
// adapters none of their input is needed.
func TestFloorOfLoRAIsThatOfAHandCount(t *testing.T) {
	const rank = 3
	all := append(slices.Clone(attending), others...)
	learned := rows * (row - 1)
	pairs := layers * rows * row * (row + 1) / 2 * heads
	base := 2 * layers * elements(all) // forward, and the gradient of the input
	base -= elements(attending)        // nothing is trained below those of the first layer
	want := 2*tokens*base + 2*2*learned*vocab*hidden + 6*2*pairs*head
	adapters := 0
	for _, m := range all {
		adapters += layers * (3*m.in + 3*m.out) // forward, the input's gradient and its own, of A and of B
	}
	for _, m := range attending {
		adapters -= m.in
	}
	want += 2 * tokens * rank * adapters
	trained := 0
	for _, m := range all {
		trained += layers * rank * (m.in + m.out)
	}

	o := llamaOptions(t, "none", "all")
	o.LoRA = lora.Config{Rank: rank}
	wide := run(t, o)
	for _, quantised := range []bool{false, true} {
		o.LoRA.BaseInt8 = quantised
		r := run(t, o)
		if r.Floor.Products != float64(want) {
			t.Errorf("int8 %v: %g operations, want %d", quantised, r.Floor.Products, want)
		}
		if got := r.Runs[0].Products.Flops - float64(want); got != 2*2*rows*vocab*hidden {
			t.Errorf("int8 %v: the plain form has %g operations more than it needs, want those of the logits of the last "+
				"position of each row", quantised, got)
		}
		if r.Config.Trained != trained || r.Floor.Bytes != float64(32*trained) {
			t.Errorf("int8 %v: %d elements are trained, and the optimizer moves %g bytes; want %d and 32 for each", quantised,
				r.Config.Trained, r.Floor.Bytes, trained)
		}
		if quantised != (r.Runs[0].Memory.Parameters < wide.Runs[0].Memory.Parameters) {
			t.Errorf("int8 %v: %d bytes of parameters, in the dtype of the files %d", quantised, r.Runs[0].Memory.Parameters,
				wide.Runs[0].Memory.Parameters)
		}
	}
}

func TestAFrozenBaseIsStoredAsItsFilesAre(t *testing.T) {
	o := llamaOptions(t, "none")
	o.LoRA = lora.Config{Rank: 3, Dropout: 0.5}
	half := run(t, o)
	o.ModelJSON = []byte(strings.Replace(llama, "bfloat16", "float32", 1))
	whole := run(t, o)
	matrices := int64(layers*(elements(attending)+elements(others)) + 2*vocab*hidden)
	if got := whole.Runs[0].Memory.Parameters - half.Runs[0].Memory.Parameters; got != 2*matrices {
		t.Errorf("bfloat16 spares %d bytes, want 2 for each of %d elements", got, matrices)
	}
	if slices.Equal(half.Runs[0].Losses, whole.Runs[0].Losses) {
		t.Error("the losses are equal to the bit, in both dtypes")
	}
}

func TestTheFloorHasTheHigherRateOfProducts(t *testing.T) {
	for rate, want := range map[float64]float64{0: 2e9, 1e9: 2e9, 3e9: 3e9} {
		o := llamaOptions(t, "none")
		o.Steps, o.ProductRate = 1, rate
		o.Ceilings = func(context.Context, time.Duration) (ceiling.Ceilings, error) {
			return ceiling.Ceilings{Threads: 1, Bandwidth: 1e9, Products: 2e9}, nil
		}
		r := run(t, o)
		if r.Floor.Rate != want || r.Machine.Ceilings.Products != 2e9 {
			t.Errorf("with %g from elsewhere the floor has %g, and the machine %g", rate, r.Floor.Rate,
				r.Machine.Ceilings.Products)
		}
	}
}

func TestAStepOfSeveralBatchesIsShown(t *testing.T) {
	o := llamaOptions(t, "none")
	one := run(t, o)
	o.Accumulate, o.LoRA = 2, lora.Config{Rank: 4, BaseInt8: true}
	r := run(t, o)
	if want := ",\nwith LoRA of rank 4, 2.24k parameters trained, on int8,\nwith 2 batches a " +
		"step\n"; !strings.Contains(r.Table(), want) {
		t.Errorf("the table lacks %q:\n%s", want, r.Table())
	}
	if c := r.Config; c.Accumulate != 2 || c.LoRA.Alpha != 8 || !c.LoRA.BaseInt8 || one.Config.LoRA.Rank != 0 {
		t.Errorf("the configuration %+v", c)
	}
	if s := r.Runs[0]; s.PlainCalls[0].Calls != 2*one.Runs[0].PlainCalls[0].Calls {
		t.Errorf("%d calls of %s, of one batch a step %d", s.PlainCalls[0].Calls, s.PlainCalls[0].Op,
			one.Runs[0].PlainCalls[0].Calls)
	}
}
