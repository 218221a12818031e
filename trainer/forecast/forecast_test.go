package forecast_test

import (
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
)

const config = `{"model_type": "llama", "vocab_size": 50, "hidden_size": 32, "intermediate_size": 64,
	"num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 64}`

func model(t *testing.T) *models.Model {
	t.Helper()
	m, err := models.New([]byte(config), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	return m
}

func forecastOf(t *testing.T, m *models.Model, r forecast.Run) *forecast.Forecast {
	t.Helper()
	f, err := forecast.New(m, autograd.Heap{}, r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func part(t *testing.T, f *forecast.Forecast, name string) int {
	t.Helper()
	for _, p := range f.Memory {
		if p.Name == name {
			return int(p.Bytes)
		}
	}
	t.Fatalf("no part %s in %v", name, f.Memory)
	return 0
}

// TestForecastIsWhatTheEngineTakes compares with the graph of a run.
func TestForecastIsWhatTheEngineTakes(t *testing.T) {
	for accumulate, checkpointing := range []bool{1: false, 2: true} {
		m := model(t)
		f := forecastOf(t, m, forecast.Run{Batch: 2, Seq: 16, GradientCheckpointing: checkpointing, Accumulate: accumulate})
		e, err := trainer.NewEngine(m, autograd.Heap{}, trainer.EngineConfig{Batch: 2, Seq: 16, Accumulate: accumulate,
			GradientCheckpointing: checkpointing, Optim: optim.DefaultConfig()})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := part(t, f, "activations")+part(t, f, "gradients"), e.Program().Bytes(); got != want {
			t.Errorf("checkpointing %t: forecast %d bytes of activations and gradients, the engine takes %d", checkpointing,
				got, want)
		}
		if got, want := part(t, f, "weights"), 4*m.Elems(); got != want {
			t.Errorf("forecast %d bytes of weights, want %d", got, want)
		}
		if got, want := part(t, f, "optimizer"), 8*m.Elems(); got != want {
			t.Errorf("forecast %d bytes for the optimizer, want %d", got, want)
		}
		e.Close()
	}
}

func TestLessMemoryIsForecastForSmallerRuns(t *testing.T) {
	m := model(t)
	all := forecastOf(t, m, forecast.Run{Batch: 4, Seq: 32, Evaluates: true}).Bytes()
	for name, r := range map[string]forecast.Run{
		"checkpointing":    {Batch: 4, Seq: 32, Evaluates: true, GradientCheckpointing: true},
		"a smaller batch":  {Batch: 2, Seq: 32, Evaluates: true},
		"shorter rows":     {Batch: 4, Seq: 16, Evaluates: true},
		"no evaluation":    {Batch: 4, Seq: 32},
		"fewer processes ": {Batch: 4, Seq: 32, Evaluates: true, Processes: -1},
	} {
		if got := forecastOf(t, m, r).Bytes(); got >= all {
			t.Errorf("%s: %d bytes, not less than %d", name, got, all)
		}
	}
}

// TestTheBestWeightsAreForecast where a run keeps them in memory.
func TestTheBestWeightsAreForecast(t *testing.T) {
	m := model(t)
	f := forecastOf(t, m, forecast.Run{Batch: 2, Seq: 16, KeepsBest: true})
	if got, want := part(t, f, "best weights"), 4*m.Elems(); got != want {
		t.Errorf("forecast %d bytes for the best weights, want %d", got, want)
	}
	plain := forecastOf(t, m, forecast.Run{Batch: 2, Seq: 16})
	if got, want := f.Bytes()-plain.Bytes(), int64(4*m.Elems()); got != want {
		t.Errorf("a run that keeps them takes %d bytes more than one that does not, want %d", got, want)
	}
}

// TestAReferencesGraphIsForecast as that of evaluations is, and once where there are both.
func TestAReferencesGraphIsForecast(t *testing.T) {
	m := model(t)
	r := forecast.Run{Batch: 2, Seq: 16}
	none := forecastOf(t, m, r).Bytes()
	r.Refers = true
	one := forecastOf(t, m, r).Bytes()
	r.Evaluates = true
	if both := forecastOf(t, m, r).Bytes(); one <= none || both != one {
		t.Errorf("%d bytes without a reference, %d with one, %d with evaluations, too", none, one, both)
	}
}

// TestStepIsTheSumOfItsFloors: twice as fast a machine takes half the time, and the
// batches of an accumulated step add up, but for the optimizer.
func TestStepIsTheSumOfItsFloors(t *testing.T) {
	m := model(t)
	slow := ceiling.Ceilings{Threads: 1, Bandwidth: 1e9, Products: 1e9}
	fast := ceiling.Ceilings{Threads: 1, Bandwidth: 2e9, Products: 2e9}
	one := forecastOf(t, m, forecast.Run{Batch: 2, Seq: 16})
	a, to := one.Step(slow, slow)
	b, toSlow := one.Step(fast, slow)
	if d := a - 2*b; a <= 0 || d > time.Microsecond || d < -time.Microsecond {
		t.Errorf("%v on one machine, %v on one twice as fast", a, b)
	}
	if to <= a || toSlow != to {
		t.Errorf("up to %v, where reaching all takes %v; up to %v where that is only the worst", to, a, toSlow)
	}
	optimizer := time.Duration(4 * 8 * one.Trainable) // at a byte for each nanosecond
	three, _ := forecastOf(t, m, forecast.Run{Batch: 2, Seq: 16, Accumulate: 3}).Step(slow, slow)
	sums := time.Duration(3 * 4 * one.Trainable) // a batch's gradient is read, the sum is read and written
	if want := 3*(a-optimizer+sums) + optimizer; three < want-time.Microsecond || three > want+time.Microsecond {
		t.Errorf("three batches take %v, want %v", three, want)
	}
}
