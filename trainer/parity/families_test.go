package parity_test

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/plugins/linked"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// subject is a small model of a family in a folder, and the oracle of that.
type subject struct {
	dir    string
	config []byte
	oracle
	ids []int32
}

// newSubject saves random weights, such that nothing is as it is at the start of a training.
func newSubject(t *testing.T, f models.Family) *subject {
	t.Helper()
	c := f.Small()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.New(config, autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	rng := rand.New(rand.NewPCG(7, 0))
	for _, p := range slices.Concat(m.Params(), m.Buffers()) {
		x := p.Tensor.Float32s()
		for i := range x {
			x[i] += 0.2 * float32(rng.NormFloat64())
		}
	}
	weights, err := m.Named()
	if err != nil {
		t.Fatal(err)
	}
	s := &subject{dir: t.TempDir(), config: config, oracle: oracle{config: map[string]any{}, like: oracles[f.Type]}}
	save(t, s.dir, config, weights)
	if err := json.Unmarshal(config, &s.oracle.config); err != nil {
		t.Fatal(err)
	}
	s.w = wide(weights)
	for range 13 {
		s.ids = append(s.ids, 3+rng.Int32N(int32(m.Vocab()-3))) // no padding, whose embedding gets no gradient
	}
	return s
}

func save(t *testing.T, dir string, config []byte, weights []checkpoint.Named) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(filepath.Join(dir, checkpoint.SingleFile), weights, nil); err != nil {
		t.Fatal(err)
	}
}

// wide are tensors in float64.
func wide(tensors []checkpoint.Named) map[string][]float64 {
	all := map[string][]float64{}
	for _, n := range tensors {
		for _, v := range n.Tensor.Float32s() {
			all[n.Name] = append(all[n.Name], float64(v))
		}
	}
	return all
}

func (s *subject) load(t *testing.T, o models.LoadOptions) *models.Model {
	t.Helper()
	m, err := models.LoadWith(s.dir, autograd.Heap{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// run is a forward and a backward pass over the subject's tokens.
func (s *subject) run(t *testing.T, m *models.Model) (logits []float32, loss float64, prog *nn.Compiled) {
	t.Helper()
	n := len(s.ids)
	c, err := nn.NewContext(autograd.Heap{}, 1, n, n)
	if err != nil {
		t.Fatal(err)
	}
	out := m.Forward(c)
	out.Logits.Keep()
	if prog, err = m.Compile(c, out.Loss, false); err != nil {
		t.Fatal(err)
	}
	rows, err := data.Pack([][]int32{s.ids}, n, 0)
	if err != nil {
		t.Fatal(err)
	}
	for b := range data.Batches(rows, 1) {
		if err := prog.Batch.Fill(b, b.Targets()); err != nil {
			t.Fatal(err)
		}
	}
	if loss, err = prog.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := prog.Backward(t.Context()); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(prog.Tensor(out.Logits).Float32s()), loss, prog
}

// nearOracle compares logits, relative to the largest, of which float32 has some 7 digits.
func nearOracle(t *testing.T, got []float32, want [][]float64) {
	t.Helper()
	diff, scale := 0.0, 0.0
	flat := slices.Concat(want...)
	if len(got) != len(flat) {
		t.Fatalf("%d logits, want %d", len(got), len(flat))
	}
	for i, w := range flat {
		diff, scale = math.Max(diff, math.Abs(float64(got[i])-w)), math.Max(scale, math.Abs(w))
	}
	if !(diff <= 5e-6*scale) {
		t.Errorf("logits differ by %.3g of the largest", diff/scale)
	}
}

// TestFamiliesWithoutRecordings compares families that no recording of published code is there for with an
// independent forward of them, in everything that a model is for.
func TestFamiliesWithoutRecordings(t *testing.T) {
	checks := []struct {
		name string
		run  func(*testing.T, *subject)
	}{
		{"forward", forwardIsTheOracles},
		{"gradients", gradientsAreSlopes},
		{"plan", everySiteHasAKernelOrAReason},
		{"LoRA", adaptersAreAddedToTheWeights},
		{"resume", aRunGoesOn},
		{"generate", theCacheChangesNothing},
	}
	known := map[string]models.Family{}
	for _, f := range models.Families() {
		known[f.Type] = f
	}
	for _, name := range slices.Sorted(maps.Keys(oracles)) {
		f, ok := known[name]
		if !ok {
			t.Errorf("there is no family %s", name)
			continue
		}
		s := newSubject(t, f)
		for _, c := range checks {
			t.Run(name+"/"+c.name, func(t *testing.T) { c.run(t, s) })
		}
	}
}

// TestEveryFamilyIsComparedWithAnother: with outputs of published code, or with an oracle, which the page then says.
func TestEveryFamilyIsComparedWithAnother(t *testing.T) {
	recorded := map[string]bool{}
	for _, dir := range cases(t) {
		text, err := os.ReadFile(filepath.Join(dir, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			ModelType string `json:"model_type"`
		}
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		recorded[c.ModelType] = true
	}
	for _, f := range models.Families() {
		if _, ok := oracles[f.Type]; !ok && !recorded[f.Type] {
			t.Errorf("%s is compared with nobody's code: add a folder of reference models, or an oracle to oracles", f.Type)
		}
	}
	page, err := os.ReadFile(filepath.Join(testdata.Root(t), "docs", "models.md"))
	if err != nil {
		t.Fatal(err)
	}
	list := "no recordings of the published code here for " + strings.Join(slices.Sorted(maps.Keys(oracles)), ", ") + ":"
	if !strings.Contains(strings.Join(strings.Fields(string(page)), " "), list) {
		t.Errorf("docs/models.md does not say that there are %s", list)
	}
}

func forwardIsTheOracles(t *testing.T, s *subject) {
	logits, loss, prog := s.run(t, s.load(t, models.LoadOptions{}))
	defer prog.Close()
	nearOracle(t, logits, s.forward(s.ids))
	if want := s.loss(s.ids); !(math.Abs(loss-want) <= 5e-6) {
		t.Errorf("loss %v, want %v", loss, want)
	}
}

// gradientsAreSlopes compares two elements of every tensor with differences of the oracle's loss, whose terms in h^2
// are extrapolated away.
func gradientsAreSlopes(t *testing.T, s *subject) {
	m := s.load(t, models.LoadOptions{})
	_, _, prog := s.run(t, m)
	defer prog.Close()
	rng := rand.New(rand.NewPCG(3, 0))
	for _, p := range m.Params() {
		gradient := core.FromFloat32(prog.Gradient(p), p.Tensor.Shape...)
		for _, e := range p.Entries {
			g, w := e.View(gradient).Float32s(), s.w[e.Name]
			scale := float64(max(slices.Max(g), -slices.Min(g)))
			for range 2 {
				i := rng.IntN(len(g))
				if strings.Contains(e.Name, "embed_tokens") { // of a token that is there
					d := e.Shape[1]
					i = int(s.ids[rng.IntN(len(s.ids)-1)])*d + rng.IntN(d)
				}
				at := func(h float64) float64 {
					was := w[i]
					defer func() { w[i] = was }()
					w[i] += h
					return s.loss(s.ids)
				}
				const h = 1e-5 // so that no clamp and no choice of experts lies between
				want := (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
				if !(math.Abs(float64(g[i])-want) <= 2e-5*scale+2e-8) {
					t.Errorf("%s element %d has gradient %v, the slope is %v; the largest is %.3g", e.Name, i, g[i], want, scale)
				}
			}
		}
	}
}

// everySiteHasAKernelOrAReason puts the project's kernels on the model, for training.
func everySiteHasAKernelOrAReason(t *testing.T, s *subject) {
	m := s.load(t, models.LoadOptions{})
	reg := core.NewRegistry()
	for _, k := range linked.Kernels() {
		if err := reg.Register(k); err != nil {
			t.Fatal(err)
		}
	}
	report, err := core.ApplyDefaultKernels(t.Context(), m, reg, "all")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range report.Actions {
		if a.Kernel == nil && a.CoveredBy == "" && a.Reason == "" {
			t.Errorf("%s (%s) has no kernel, and no reason why", a.Site.Path, a.Site.Op)
		}
	}
	if n := len(report.Applied()); n < 3 {
		t.Errorf("%d kernels are applied:\n%s", n, report)
	}
	logits, _, prog := s.run(t, m)
	defer prog.Close()
	nearOracle(t, logits, s.forward(s.ids))
}

// adaptersAreAddedToTheWeights compares a model with trained adapters, saved and loaded again, and merged, with the
// oracle of weights to which B A is added.
func adaptersAreAddedToTheWeights(t *testing.T, s *subject) {
	m := s.load(t, models.LoadOptions{LoRA: lora.Config{Rank: 2, Alpha: 3}})
	rng := rand.New(rand.NewPCG(9, 0))
	for _, p := range m.Trainable() {
		for i := range p.Tensor.Float32s() {
			p.Tensor.Float32s()[i] = 0.2 * float32(rng.NormFloat64())
		}
	}
	saved, err := m.Saved()
	if err != nil {
		t.Fatal(err)
	}
	with := s.oracle
	with.w = maps.Clone(s.w)
	adapter := wide(saved.Weights)
	for name, a := range adapter {
		path, isA := strings.CutSuffix(name, ".lora_A.weight")
		if !isA {
			continue
		}
		b := adapter[path+".lora_B.weight"]
		weight := strings.TrimPrefix(path, "base_model.model.") + ".weight"
		in, sum := len(a)/2, slices.Clone(with.tensor(weight))
		for i := range sum {
			for r := range 2 {
				sum[i] += 1.5 * b[i/in*2+r] * a[r*in+i%in]
			}
		}
		with.w[weight] = sum
	}
	want := with.forward(s.ids)
	logits, _, prog := s.run(t, m)
	prog.Close()
	nearOracle(t, logits, want)

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, saved.ConfigFile), saved.Config, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(filepath.Join(dir, saved.WeightsFile), saved.Weights, nil); err != nil {
		t.Fatal(err)
	}
	again := s.load(t, models.LoadOptions{LoRA: lora.Config{Adapter: dir}})
	if err := again.Merge(); err != nil {
		t.Fatal(err)
	}
	merged, err := again.Named()
	if err != nil {
		t.Fatal(err)
	}
	loaded := subject{dir: t.TempDir(), ids: s.ids}
	save(t, loaded.dir, s.config, merged)
	logits, _, prog = loaded.run(t, loaded.load(t, models.LoadOptions{}))
	prog.Close()
	nearOracle(t, logits, want)
}

// aRunGoesOn: three steps, and three after two and a checkpoint, write the same file.
func aRunGoesOn(t *testing.T, s *subject) {
	job := func(out string) *trainer.Job {
		rows, err := data.Pack([][]int32{s.ids, s.ids[3:], s.ids[1:9], s.ids[2:]}, len(s.ids), 0)
		if err != nil {
			t.Fatal(err)
		}
		c := trainer.Default()
		c.Model, c.Steps, c.Batch, c.Seq = s.dir, 3, 1, len(s.ids)
		c.Kernels, c.Out, c.LR = "none", out, 1e-2
		c.Checkpoints = trainer.Checkpoints{SaveEvery: 2, Keep: 1}
		m := s.load(t, models.LoadOptions{})
		return &trainer.Job{Config: c, Model: m, Memory: autograd.Heap{}, Train: data.Slice(rows)}
	}
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	run := func(ctx context.Context, j *trainer.Job) *trainer.Summary {
		sum, err := j.Run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := run(t.Context(), job(whole))
	ctx, stop := context.WithCancel(t.Context())
	j := job(parts)
	j.Hooks.OnStep = func(s trainer.Step) {
		if s.Step == 2 {
			stop()
		}
	}
	if sum := run(ctx, j); !sum.Interrupted {
		t.Fatal("the run was not interrupted")
	}
	j = job(parts)
	var err error
	if j.Resume, err = trainer.OpenCheckpoint(parts); err != nil {
		t.Fatal(err)
	}
	if second := run(t.Context(), j); second.Steps != 3 || second.Last.Loss != first.Last.Loss {
		t.Errorf("last losses %v and %v", second.Last.Loss, first.Last.Loss)
	}
	a, err := os.ReadFile(filepath.Join(whole, checkpoint.SingleFile))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(parts, checkpoint.SingleFile))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a, b) {
		t.Error("a resumed run has other weights than one that was not interrupted")
	}
}

// theCacheChangesNothing reads tokens in pieces, and writes some with the likeliest next; with the project's kernels
// and without.
func theCacheChangesNothing(t *testing.T, s *subject) {
	for _, kernels := range []string{"none", "all"} {
		m := s.load(t, models.LoadOptions{Frozen: true})
		reg := core.NewRegistry()
		for _, k := range linked.Kernels() {
			if err := reg.Register(k); err != nil {
				t.Fatal(err)
			}
		}
		session := generate.NewSession(m, autograd.Heap{}, 0) // which offers its cache to the kernels
		if _, err := core.ApplyDefaultKernels(t.Context(), m.ForInference(), reg, kernels, core.Inference()); err != nil {
			t.Fatal(err)
		}
		ids := slices.Clone(s.ids)
		var logits []float32
		for at := 0; at < len(ids); {
			n := min([]int{5, 1, 3}[at%3], len(ids)-at)
			var err error
			if logits, err = session.Feed(t.Context(), ids[at:at+n]); err != nil {
				t.Fatal(err)
			}
			at += n
			nearOracle(t, logits, s.forward(ids[:at])[at-1:])
			if at == len(ids) && at < len(s.ids)+4 {
				ids = append(ids, int32(best(s.forward(ids)[at-1], 1)[0]))
			}
		}
		session.Close()
	}
}
