package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// Scheme says what of a model becomes int8.
type Scheme string

// The schemes. Weights have a scale for each row in all of them.
const (
	// W8A8 is weights and activations, these with a scale and an offset that a text has shown, or with a scale for each
	// token where the text has shown that one scale is too coarse.
	W8A8        Scheme = "w8a8"
	W8A8Dynamic Scheme = "w8a8-dynamic" // weights and activations, these with a scale for each token
	Int8        Scheme = "int8"         // weights alone
)

// Schemes returns them all.
func Schemes() []string { return []string{string(W8A8), string(W8A8Dynamic), string(Int8)} }

// scaling is how activations become int8.
func (s Scheme) scaling() core.Scaling {
	return map[Scheme]core.Scaling{W8A8: core.StaticScaling, W8A8Dynamic: core.DynamicScaling}[s]
}

// Quantization says what Quantize does.
type Quantization struct {
	Model, Out string // folders; Out must not exist or be empty
	Scheme     Scheme
	Float      []string // layers that stay as they are: paths in which * stands for anything
	Head       bool     // the head becomes int8, too; a copy of its own, where it is the embedding
	// Calibration, of W8A8 alone, are rows of Seq tokens that show how large activations are, read in batches.
	Calibration data.Rows
	Batch, Seq  int
}

// Quantized is what came of it.
type Quantized struct {
	Int8, Float []string // the linear layers that became int8, and those that stayed
	Dynamic     []string // those of Int8 that W8A8 has given a scale for each token
	Tokens      int      // that activations were measured on
}

// Quantize writes a model folder whose linear layers, but routers, those of Float and without Head the head, have
// weights in int8.
// The folder appears under its name only when it is complete. Memory is that of what it writes, and with W8A8
// before that of the model and a batch.
func Quantize(ctx context.Context, q Quantization, mem core.Memory) (report Quantized, err error) {
	if !slices.Contains(Schemes(), string(q.Scheme)) {
		return report, fmt.Errorf("trainer: unknown scheme %q; known: %s", q.Scheme, strings.Join(Schemes(), ", "))
	}
	if (q.Scheme == W8A8) != (q.Calibration != nil) {
		return report, fmt.Errorf("trainer: scheme %s: a text to calibrate with is for %s, which needs one", q.Scheme, W8A8)
	}
	claim, err := checkpoint.NewClaim(q.Out)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, claim.Close()) }()
	folder, err := checkpoint.NewFolder(q.Out)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, folder.Abort()) }() // which does nothing after a commit
	spans, config, err := q.calibrate(ctx, &report, mem)
	if err != nil {
		return report, err
	}
	saved := models.Saved{ConfigFile: "config.json", WeightsFile: checkpoint.SingleFile}
	if saved.Weights, err = q.weights(ctx, spans); err != nil {
		return report, err
	}
	if saved.Config, err = q.config(config, report, saved.Weights); err != nil {
		return report, err
	}
	files, err := tokenizerFiles(q.Model)
	if err == nil {
		err = writeModel(folder, saved, files)
	}
	if err != nil {
		return report, fmt.Errorf("trainer: save %s: %w", q.Out, err)
	}
	return report, folder.Commit()
}

// stays reports whether a layer keeps its dtype.
func (q Quantization) stays(layer string) bool {
	return layer == head && !q.Head || slices.ContainsFunc(q.Float, func(pattern string) bool {
		is, err := path.Match(pattern, layer)
		return is && err == nil
	})
}

// calibrate chooses the layers, and with W8A8 measures what they are given.
func (q Quantization) calibrate(ctx context.Context, report *Quantized, mem core.Memory) (map[string]*span, []byte, error) {
	load := models.Shape
	if q.Calibration != nil {
		load = models.LoadWith
	}
	m, err := load(q.Model, mem, models.LoadOptions{Frozen: true})
	if err != nil {
		return nil, nil, err
	}
	defer m.Free()
	if m.Quantised != "" {
		return nil, nil, fmt.Errorf("trainer: %s is quantised already (quant_method %s): take the model that it was made from",
			q.Model, m.Quantised)
	}
	spans := map[string]*span{}
	for i, l := range m.Linears() {
		p, s := l.Path(), &span{head: i == len(m.Linears())-1}
		if s.head && q.Head {
			p, s.tied = head, p != head
		}
		switch {
		case q.stays(p) || s.head && !q.Head:
			report.Float = append(report.Float, p)
		default:
			report.Int8 = append(report.Int8, p)
			spans[l.Path()] = s
		}
	}
	for _, pattern := range q.Float {
		if !slices.ContainsFunc(report.Float, func(p string) bool { is, _ := path.Match(pattern, p); return is }) {
			return nil, nil, fmt.Errorf("trainer: no linear layer of %s is called %q; the first is %s", q.Model, pattern,
				m.Linears()[0].Path())
		}
	}
	if len(report.Int8) == 0 {
		return nil, nil, fmt.Errorf("trainer: no layer of %s is left to become int8", q.Model)
	}
	if q.Calibration == nil { // nothing has read the weights yet
		return spans, m.RawConfig, q.fits(m)
	}
	report.Tokens, err = q.measure(ctx, m, mem, spans)
	for _, l := range m.Linears() {
		if s := spans[l.Path()]; s == nil || s.static() {
			continue
		} else if s.head {
			report.Dynamic = append(report.Dynamic, head)
		} else {
			report.Dynamic = append(report.Dynamic, l.Path())
		}
	}
	return spans, m.RawConfig, err
}

// fits refuses a folder that could not be loaded: what is written would not be, either.
func (q Quantization) fits(m *models.Model) error {
	if err := models.Verify(q.Model, ""); err != nil {
		return err
	}
	set, err := checkpoint.OpenDir(q.Model)
	if err != nil {
		return fmt.Errorf("trainer: %w", err)
	}
	if err := errors.Join(m.Fits(set), set.Close()); err != nil {
		return fmt.Errorf("trainer: %s: %w", q.Model, err)
	}
	return nil
}

// measure runs the model over the rows.
func (q Quantization) measure(ctx context.Context, m *models.Model, mem core.Memory,
	spans map[string]*span) (tokens int, err error) {
	c, err := nn.NewContext(mem, q.Batch, q.Seq, q.Seq)
	if err != nil {
		return 0, err
	}
	c.Observe = func(l *nn.Linear, x []float32) {
		if s := spans[l.Path()]; s != nil {
			s.take(x)
		}
	}
	program, err := m.Compile(c, m.Forward(c).Loss, true)
	if err != nil {
		return 0, err
	}
	defer program.Close()
	batches, failed := data.Stream(q.Calibration, q.Batch)
	for b := range batches {
		n := b.Targets()
		if n == 0 {
			continue
		}
		if err := program.Batch.Fill(b, n); err != nil {
			return 0, err
		}
		if _, err := program.Forward(ctx); err != nil {
			return 0, err
		}
		tokens += n
	}
	if err := failed(); err != nil {
		return 0, err
	}
	if tokens == 0 {
		return 0, errors.New("trainer: the text to calibrate with has no tokens")
	}
	return tokens, nil
}

// weights returns the tensors of the new folder.
func (q Quantization) weights(ctx context.Context, spans map[string]*span) (all []checkpoint.Named, err error) {
	set, err := checkpoint.OpenDir(q.Model)
	if err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	var room checkpoint.Room
	add := func(name string, t core.Tensor) { all = append(all, checkpoint.Named{Name: name, Tensor: t}) }
	own := slices.ContainsFunc(slices.Collect(maps.Values(spans)), func(s *span) bool { return s.tied })
	for _, name := range set.Names() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		layer := strings.TrimSuffix(name, ".weight")
		s := spans[layer]
		if own && layer == head { // a copy of the embedding, which nobody reads
			continue
		}
		if s == nil || layer == name || s.tied {
			t, err := set.Tensor(name)
			if err == nil {
				err = checkpoint.CheckFinite(name, t)
			}
			if err != nil {
				return nil, err
			}
			add(name, t)
		}
		if s == nil || layer == name {
			continue
		}
		if s.tied {
			layer = head
		}
		t, err := set.TensorIn(&room, name)
		if err == nil {
			err = checkpoint.CheckFinite(name, t)
		}
		if err != nil {
			return nil, err
		}
		weight, scale := nn.Quantise(t)
		add(layer+".weight", weight)
		add(layer+".weight_scale", scale)
		if q.Scheme == W8A8 && s.static() {
			input, offset := s.scale()
			add(layer+".input_scale", core.FromFloat32([]float32{input}, 1))
			zero := core.NewTensor(core.Int8, 1)
			zero.Int8s()[0] = offset
			add(layer+".input_zero_point", zero)
		}
	}
	return all, nil
}

// config adds to config.json what was done.
func (q Quantization) config(raw []byte, report Quantized, weights []checkpoint.Named) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("trainer: config.json: %w", err)
	}
	own, err := json.Marshal(models.NewQuantisation(q.Scheme.scaling(), report.Dynamic, floats(weights)))
	if err != nil {
		return nil, fmt.Errorf("trainer: config.json: %w", err)
	}
	fields["quantization_config"] = own
	if slices.Contains(report.Int8, head) {
		fields["tie_word_embeddings"] = json.RawMessage("false")
	}
	text, err := json.MarshalIndent(fields, "", "  ")
	return append(text, '\n'), err
}

// floats returns all that is no int8 and that a program which knows layers by their kind could take for it: routers, too,
// and a head that is the embedding, which has no weights of its own.
func floats(weights []checkpoint.Named) (layers []string) {
	own := false
	for _, w := range weights {
		layer, is := strings.CutSuffix(w.Name, ".weight")
		if is && len(w.Tensor.Shape) == 2 && w.Tensor.DType != core.Int8 {
			layers = append(layers, layer)
		}
		own = own || is && layer == head
	}
	if !own {
		layers = append(layers, head)
	}
	return layers
}
