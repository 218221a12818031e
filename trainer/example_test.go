package trainer_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/demo"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
)

// A literal has the defaults for what it leaves out.
func ExampleConfig() {
	c := trainer.Config{Batch: 8, LR: 5e-5}.WithDefaults()
	fmt.Println(c.Batch, c.LR, c.Seq, c.Schedule, c.Clip, c.Kernels)
	none := trainer.Default() // whose zeros are meant
	none.Clip = 0
	fmt.Println(none.WithDefaults().Clip)
	// Output:
	// 8 5e-05 256 cosine 1 auto
	// 0
}

// Every field that makes no sense is named.
func ExampleConfig_Validate() {
	fmt.Println(trainer.Config{Batch: -1, WarmupRatio: 2}.Validate())
	// Output:
	// trainer.Config.Batch is -1, must be positive
	// trainer.Config.WarmupRatio is 2, must be between 0 and 1
}

// tinyJob is a model and rows that are made here instead of read from files.
func tinyJob(c trainer.Config) *trainer.Job {
	m, err := models.New([]byte(tiny), autograd.Heap{})
	if err != nil {
		log.Fatal(err)
	}
	m.Init(1)
	doc := make([]int32, 200)
	for i := range doc {
		doc[i] = int32(i % 7)
	}
	rows, err := data.Pack([][]int32{doc}, 16, data.None)
	if err != nil {
		log.Fatal(err)
	}
	return &trainer.Job{Config: c, Model: m, Memory: autograd.Heap{}, Train: data.Slice(rows)}
}

// A run of a model that is in memory. Hooks tell what happens; with Config.Out, the trained
// model is saved.
func ExampleJob_Run() {
	job := tinyJob(trainer.Config{Steps: 20, Batch: 2, Seq: 16, LR: 1e-2, Kernels: "none"})
	job.Hooks.OnStart = func(s trainer.Start) { fmt.Println(s.Model, "for", s.Steps, "steps") }
	sum, err := job.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the loss halved:", sum.Last.Loss < sum.First.Loss/2)
	// Output:
	// qwen3_moe for 20 steps
	// the loss halved: true
}

// A model folder is fine-tuned on a file, and saved as a model folder. The folder to start
// from is the command's demonstration.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, model, text := context.Background(), filepath.Join(dir, "model"), filepath.Join(dir, "text.jsonl")
	first := trainer.Config{Steps: 1, Seq: 64, Out: model, Kernels: "none"}
	d, err := demo.New(first.WithDefaults(), autograd.Heap{})
	if err != nil {
		log.Fatal(err)
	}
	d.Job.Eval = nil
	if _, err := d.Job.Run(ctx); err != nil {
		log.Fatal(err)
	}
	lines := strings.Repeat(`{"text": "one cat, two cats, to bark, it barked"}`+"\n", 20)
	if err := os.WriteFile(text, []byte(lines), 0o600); err != nil {
		log.Fatal(err)
	}

	c := trainer.Config{Model: model, Out: filepath.Join(dir, "tuned"), Steps: 2, Kernels: "none"}
	c.Data.Paths = []string{text}
	job, err := trainer.Load(ctx, c, autograd.Heap{}) // transport.NewMemory, to run with plugins
	if err != nil {
		log.Fatal(err)
	}
	defer job.Close()
	job.Hooks.OnPatch = func(r *core.Report) { fmt.Println("kernels:", len(r.Applied())) }
	sum, err := job.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum.Steps, "steps, saved as", filepath.Base(sum.Out))
	// Output:
	// kernels: 0
	// 2 steps, saved as tuned
}

// A run that was cut short goes on from its newest checkpoint, to the same losses.
func ExampleOpenCheckpoint() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	c := trainer.Config{Steps: 6, Batch: 2, Seq: 16, Kernels: "none", Out: filepath.Join(dir, "out")}
	c.Checkpoints.SaveEvery = 2
	whole, err := tinyJob(trainer.Config{Steps: 6, Batch: 2, Seq: 16, Kernels: "none"}).Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}

	ctx, interrupt := context.WithCancel(context.Background())
	cut := tinyJob(c)
	cut.Hooks.OnStep = func(s trainer.Step) {
		if s.Step == 4 {
			interrupt()
		}
	}
	if _, err := cut.Run(ctx); err != nil {
		log.Fatal(err)
	}
	again := tinyJob(c)
	if again.Resume, err = trainer.OpenCheckpoint(c.Out); err != nil {
		log.Fatal(err)
	}
	sum, err := again.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("from step", again.Resume.State.Step, "to", sum.Steps, "with the same loss:", sum.Last.Loss == whole.Last.Loss)
	// Output: from step 4 to 6 with the same loss: true
}

// An engine makes single steps, for a loop of one's own.
func ExampleEngine_Step() {
	job := tinyJob(trainer.Config{})
	size := trainer.EngineConfig{Batch: 2, Seq: 16, Clip: 1, Optim: optim.DefaultConfig()}
	e, err := trainer.NewEngine(job.Model, job.Memory, size)
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	loader, err := data.NewLoader(job.Train, 2, 1)
	if err != nil {
		log.Fatal(err)
	}
	var first, last float64
	for step := range 10 {
		batch, err := loader.Next()
		if err != nil {
			log.Fatal(err)
		}
		r, err := e.Step(context.Background(), []data.Batch{batch}, 1e-2)
		if err != nil {
			log.Fatal(err)
		}
		if last = r.Loss; step == 0 {
			first = r.Loss
		}
	}
	fmt.Println("it learns:", last < first)
	// Output: it learns: true
}

// An evaluator measures the loss of a model that is not trained.
func ExampleEvaluator() {
	job := tinyJob(trainer.Config{})
	e, err := trainer.NewEvaluator(job.Model, job.Memory, 2, 16, 16, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	batches, failed := data.Stream(job.Train, 2)
	loss, targets, err := e.Loss(context.Background(), batches)
	fmt.Println(loss > 0, targets, err, failed())
	// Output: true 187 <nil> <nil>
}
