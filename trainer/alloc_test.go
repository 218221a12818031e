package trainer_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
)

// shaped returns the configuration of a small Llama.
func shaped(layers, hidden int) []byte {
	return fmt.Appendf(nil, `{"model_type": "llama", "vocab_size": 64, "hidden_size": %d, "intermediate_size": %d, "num_hidden_layers": %d,
		"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "tie_word_embeddings": true}`, hidden, 2*hidden, layers)
}

// stepper compiles a model and returns a function that makes one step, and the number of
// instructions.
func stepper(t testing.TB, layers, hidden, seq int) (step func(), instructions int) {
	t.Helper()
	m, err := models.New(shaped(layers, hidden), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	e, err := trainer.NewEngine(m, autograd.Heap{}, trainer.EngineConfig{Batch: 2, Seq: seq, Clip: 1, Optim: optim.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	n := 2 * seq
	b := data.Batch{B: 2, S: seq, IDs: make([]int32, n), Positions: make([]int32, n), Segments: make([]int32, n)}
	for i := range n {
		b.IDs[i], b.Positions[i], b.Segments[i] = int32(i%64), int32(i%seq), 1
	}
	b.Labels = b.IDs
	batches := []data.Batch{b}
	return func() {
		if _, err := e.Step(t.Context(), batches, 1e-4); err != nil {
			t.Fatal(err)
		}
	}, e.Program().Len()
}

// TestTheHeapDoesNotGrowWithTheModel: what a step allocates are a few small closures for
// each instruction, whatever the sizes of tensors, and nothing of it stays.
func TestTheHeapDoesNotGrowWithTheModel(t *testing.T) {
	simd.SetThreads(1)
	defer simd.SetThreads(0)
	allocs := map[[3]int]float64{}
	for _, size := range [][3]int{{2, 32, 16}, {2, 64, 64}, {6, 32, 16}} {
		step, instructions := stepper(t, size[0], size[1], size[2])
		n := testing.AllocsPerRun(5, step)
		t.Logf("layers, hidden size and length %v: %d instructions, %g allocations a step", size, instructions, n)
		if allocs[size] = n; n > 4*float64(instructions) {
			t.Errorf("%d instructions allocate %g times, want at most 4 each", instructions, n)
		}
	}
	if small, large := allocs[[3]int{2, 32, 16}], allocs[[3]int{2, 64, 64}]; large > 1.2*small {
		t.Errorf("larger tensors make a step allocate %g times instead of %g", large, small)
	}
}

// TestStepsLeaveNothingOnTheHeap: what leaks grows with every further round of steps, whereas what the runtime keeps for
// goroutines that wait (some hundred small objects for each processor) fills up once, the later the busier the machine is.
func TestStepsLeaveNothingOnTheHeap(t *testing.T) {
	const rounds, steps, few = 4, 300, 100
	step, _ := stepper(t, 2, 32, 16)
	objects := func() uint64 {
		for range steps {
			step()
		}
		runtime.GC()
		runtime.GC() // pools keep what they hold for one collection more
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	counts := []uint64{objects()}
	for range rounds {
		counts = append(counts, objects())
		if n := len(counts); counts[n-1] <= counts[n-2]+few {
			return
		}
	}
	t.Errorf("every %d steps leave more than %d objects on the heap: %d", steps, few, counts)
}

// BenchmarkStep reports what a step allocates on the Go heap, once it runs steadily.
func BenchmarkStep(b *testing.B) {
	for _, layers := range []int{2, 8} {
		for _, seq := range []int{32, 128} {
			b.Run(fmt.Sprintf("layers=%d/seq=%d", layers, seq), func(b *testing.B) {
				step, instructions := stepper(b, layers, 64, seq)
				step()
				b.ReportAllocs()
				for b.Loop() {
					step()
				}
				b.ReportMetric(float64(instructions), "instructions")
			})
		}
	}
}
