package trainer_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/models"
)

func TestTheZeroConfigIsAPlainRun(t *testing.T) {
	if got, want := (trainer.Config{}).WithDefaults(), trainer.Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("defaults are %+v, want %+v", got, want)
	}
	if err := (trainer.Config{}).Validate(); err != nil {
		t.Error(err)
	}
	got := trainer.Config{Batch: 7, Clip: 0.5}.WithDefaults()
	if got.Batch != 7 || got.Clip != 0.5 || got.Seq != trainer.Default().Seq {
		t.Errorf("%+v, want what was given, and defaults for the rest", got)
	}
}

func TestAZeroThatIsMeantStays(t *testing.T) {
	c := trainer.Default()
	c.Clip, c.WeightDecay, c.CheckEvery, c.Beta1 = 0, 0, 0, 0
	if got := c.WithDefaults(); !reflect.DeepEqual(got, c) || got.Validate() != nil {
		t.Errorf("%+v, want %+v", got, c)
	}
	c.Batch = 0
	if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "trainer.Config.Batch is 0") {
		t.Errorf("error %v", err)
	}
}

func TestLoadingNothingNamesTheField(t *testing.T) {
	_, err := trainer.Load(t.Context(), trainer.Config{}, autograd.Heap{})
	if err == nil || !strings.Contains(err.Error(), "trainer.Config.Model is empty") {
		t.Errorf("error %v", err)
	}
}

func TestAJobWithoutItsPartsIsAnError(t *testing.T) {
	for name, strip := range map[string]func(*trainer.Job){
		"a model": func(j *trainer.Job) { j.Model = nil },
		"memory":  func(j *trainer.Job) { j.Memory = nil },
		"rows":    func(j *trainer.Job) { j.Train = nil },
	} {
		j := job(t)
		strip(j)
		_, ran := j.Run(t.Context())
		_, tried := j.FindRate(t.Context(), 10)
		for _, err := range []error{ran, tried} {
			if err == nil || !strings.Contains(err.Error(), "a job needs a Model") {
				t.Errorf("without %s: error %v", name, err)
			}
		}
	}
	if _, err := models.New([]byte(tiny), nil); err == nil || !strings.Contains(err.Error(), "transport.NewMemory") {
		t.Errorf("a model without memory: error %v", err)
	}
}

// TestJobsOfOneProgramShareTheirThreads: one job is run in the middle of another.
func TestJobsOfOneProgramShareTheirThreads(t *testing.T) {
	alone, err := job(t).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	outer := job(t)
	outer.Config.Threads = 2
	var other, same error
	var inner *trainer.Summary
	outer.Hooks.OnStep = func(s trainer.Step) {
		if s.Step != 2 {
			return
		}
		j := job(t)
		j.Config.Threads = 3
		_, other = j.Run(t.Context())
		j.Config.Threads = 2
		inner, same = j.Run(t.Context())
	}
	sum, err := outer.Run(t.Context())
	if err != nil || same != nil {
		t.Fatal(err, same)
	}
	const refused = "trainer.Config.Threads is 3: 3 threads are asked for, but this program computes with 2"
	if other == nil || !strings.Contains(other.Error(), refused) {
		t.Errorf("error %v", other)
	}
	if sum.Last.Loss != alone.Last.Loss || inner.Last.Loss != alone.Last.Loss {
		t.Errorf("last losses %v and %v, alone %v", sum.Last.Loss, inner.Last.Loss, alone.Last.Loss)
	}
}
