package trainer_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// evaluated is the loss of a folder's model.
func evaluated(t *testing.T, dir string) float64 {
	t.Helper()
	mem := plugintest.Memory(t)
	m, err := models.LoadWith(dir, mem, models.LoadOptions{Frozen: true})
	if err != nil {
		t.Fatal(err)
	}
	e, err := trainer.NewEvaluator(m, mem, 2, 16, 16, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	batches, _ := data.Stream(rows(t, 16), 2)
	loss, _, err := e.Loss(t.Context(), batches)
	if err != nil {
		t.Fatal(err)
	}
	return loss
}

// quantized is a use of Quantize on a folder.
func quantized(t *testing.T, from string, scheme trainer.Scheme, float ...string) (string, trainer.Quantized, error) {
	t.Helper()
	q := trainer.Quantization{Model: from, Out: filepath.Join(t.TempDir(), "q"), Scheme: scheme, Float: float}
	if scheme == trainer.W8A8 {
		q.Calibration, q.Batch, q.Seq = rows(t, 16), 2, 16
	}
	report, err := trainer.Quantize(t.Context(), q, plugintest.Memory(t))
	return q.Out, report, err
}

// TestAQuantisedModelIsNearTheOneItWasMadeFrom: with every scheme the loss is near, and is not the same; fewer layers
// in int8 are nearer.
func TestAQuantisedModelIsNearTheOneItWasMadeFrom(t *testing.T) {
	from := tinyFolder(t)
	want := evaluated(t, from)
	for _, scheme := range []trainer.Scheme{trainer.W8A8, trainer.W8A8Dynamic, trainer.Int8} {
		t.Run(string(scheme), func(t *testing.T) {
			out, report, err := quantized(t, from, scheme)
			if err != nil {
				t.Fatal(err)
			}
			if got := evaluated(t, out); got == want || !(math.Abs(got-want) <= 0.01*want) {
				t.Errorf("the loss is %v, of the model %v", got, want)
			}
			if len(report.Int8) < 2 || len(report.Float) != 1 || (report.Tokens > 0) != (scheme == trainer.W8A8) {
				t.Errorf("%+v", report)
			}
			if err := checkpoint.Verify(out); err != nil {
				t.Error(err)
			}
			_, err = models.LoadWith(out, plugintest.Memory(t), models.LoadOptions{})
			wantText(t, err, "train the model that it was made from")
			_, err = models.LoadWith(out, plugintest.Memory(t), models.LoadOptions{Frozen: true, LoRA: lora.Config{Adapter: out}})
			wantText(t, err, "train the model that it was made from")
			_, _, err = quantized(t, out, trainer.Int8)
			wantText(t, err, "is quantised already")
		})
	}
}

// TestWhatOthersHaveQuantisedIsNotQuantisedAgain, whatever its tensors are.
func TestWhatOthersHaveQuantisedIsNotQuantisedAgain(t *testing.T) {
	fourBits := `"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"},`
	dir := tinyFolder(t)
	config, err := models.ReadConfig(dir)
	if err == nil {
		config = []byte(strings.Replace(string(config), "{", "{"+fourBits, 1))
		err = os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = quantized(t, dir, trainer.Int8)
	wantText(t, err, "is quantised already (quant_method bitsandbytes)")
}

// TestABadScaleOfActivationsIsAllThatIsSaid: the scales of other layers are not called tensors without a place.
func TestABadScaleOfActivationsIsAllThatIsSaid(t *testing.T) {
	dir, _, err := quantized(t, tinyFolder(t), trainer.W8A8)
	if err != nil {
		t.Fatal(err)
	}
	bad := ""
	out := rewritten(t, dir, func(tensors []checkpoint.Named) []checkpoint.Named {
		for _, x := range tensors {
			if strings.HasSuffix(x.Name, ".input_scale") && bad == "" {
				bad = strings.TrimSuffix(x.Name, ".input_scale")
				x.Tensor.Float32s()[0] = 0
			}
		}
		return tensors
	})
	_, err = models.LoadWith(out, plugintest.Memory(t), models.LoadOptions{Frozen: true})
	wantText(t, err, bad+": activations cannot have the scale 0")
	if err != nil && strings.Contains(err.Error(), "no place") {
		t.Error(err)
	}
}

// TestAScaleThatTheConfigurationDoesNotKnowIsRefused: it does not make activations int8 that are to stay as they are, or
// to have a scale for each token.
func TestAScaleThatTheConfigurationDoesNotKnowIsRefused(t *testing.T) {
	for _, scheme := range []trainer.Scheme{trainer.Int8, trainer.W8A8Dynamic} {
		dir, report, err := quantized(t, tinyFolder(t), scheme)
		if err != nil {
			t.Fatal(err)
		}
		name := report.Int8[0] + ".input_scale"
		out := rewritten(t, dir, func(tensors []checkpoint.Named) []checkpoint.Named {
			return append(tensors, checkpoint.Named{Name: name, Tensor: core.FromFloat32([]float32{0.01}, 1)})
		})
		_, err = models.LoadWith(out, plugintest.Memory(t), models.LoadOptions{Frozen: true})
		wantText(t, err, "has no place in this model: "+name)
	}
}

// TestAFolderThatCannotBeLoadedIsNotQuantised, although no scheme but w8a8 loads the model.
func TestAFolderThatCannotBeLoadedIsNotQuantised(t *testing.T) {
	from := tinyFolder(t)
	for want, change := range map[string]func(tensors []checkpoint.Named) []checkpoint.Named{
		"1 tensor is missing from the files: model.norm.weight": func(tensors []checkpoint.Named) []checkpoint.Named {
			return slices.DeleteFunc(tensors, func(n checkpoint.Named) bool { return n.Name == "model.norm.weight" })
		},
		"tensor model.norm.weight has the value NaN": func(tensors []checkpoint.Named) []checkpoint.Named {
			i := slices.IndexFunc(tensors, func(n checkpoint.Named) bool { return n.Name == "model.norm.weight" })
			tensors[i].Tensor = core.NewTensor(core.Float32, tensors[i].Tensor.Shape...)
			tensors[i].Tensor.Float32s()[0] = float32(math.NaN())
			return tensors
		},
		"no place in this model: model.layers.0.self_attn.q_proj.more": func(all []checkpoint.Named) []checkpoint.Named {
			return append(all, checkpoint.Named{Name: "model.layers.0.self_attn.q_proj.more", Tensor: all[0].Tensor})
		},
		"down_proj.weight is int32; supported: float32, bfloat16, float16": func(all []checkpoint.Named) []checkpoint.Named {
			i := slices.IndexFunc(all, func(n checkpoint.Named) bool { return strings.HasSuffix(n.Name, "down_proj.weight") })
			all[i].Tensor = core.NewTensor(core.Int32, all[i].Tensor.Shape...)
			return all
		},
	} {
		_, _, err := quantized(t, rewritten(t, from, change), trainer.W8A8Dynamic)
		wantText(t, err, want)
	}
	dir := rewritten(t, from, func(tensors []checkpoint.Named) []checkpoint.Named { return tensors })
	sums := strings.Repeat("0", 64) + "  " + checkpoint.SingleFile + "\n"
	if err := os.WriteFile(filepath.Join(dir, checkpoint.SumsFile), []byte(sums), 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, err := quantized(t, dir, trainer.Int8)
	wantText(t, err, "take another copy")
}

// TestAnEmbeddingInInt8IsRefused: rows are taken of it without their scales.
func TestAnEmbeddingInInt8IsRefused(t *testing.T) {
	dir, _, err := quantized(t, tinyFolder(t), trainer.Int8)
	if err != nil {
		t.Fatal(err)
	}
	const name = "model.embed_tokens.weight"
	out := rewritten(t, dir, func(tensors []checkpoint.Named) []checkpoint.Named {
		i := slices.IndexFunc(tensors, func(n checkpoint.Named) bool { return n.Name == name })
		rows := core.NewTensor(core.Float32, tensors[i].Tensor.Shape[0], 1)
		tensors[i].Tensor = core.NewTensor(core.Int8, tensors[i].Tensor.Shape...)
		return append(tensors, checkpoint.Named{Name: name + "_scale", Tensor: rows})
	})
	_, err = models.LoadWith(out, plugintest.Memory(t), models.LoadOptions{Frozen: true})
	wantText(t, err, name+" is int8")
}

// rewritten returns a copy of a model's folder with other tensors.
func rewritten(t *testing.T, dir string, change func(tensors []checkpoint.Named) []checkpoint.Named) string {
	t.Helper()
	set, err := checkpoint.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []checkpoint.Named
	for _, name := range set.Names() {
		x, err := set.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, checkpoint.Named{Name: name, Tensor: x})
	}
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	config, err := models.ReadConfig(dir)
	if err == nil {
		err = os.WriteFile(filepath.Join(out, "config.json"), config, 0o644)
	}
	if err == nil {
		err = checkpoint.Write(filepath.Join(out, checkpoint.SingleFile), change(tensors), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantText(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want one with %q", err, text)
	}
}

func TestLayersCanStayFloat(t *testing.T) {
	from := tinyFolder(t)
	_, all, err := quantized(t, from, trainer.Int8)
	if err != nil {
		t.Fatal(err)
	}
	out, report, err := quantized(t, from, trainer.Int8, "*.down_proj")
	if err != nil || len(report.Int8) == 0 || len(report.Int8)+len(report.Float) != len(all.Int8)+len(all.Float) {
		t.Fatalf("%+v, %v", report, err)
	}
	set, err := checkpoint.OpenDir(out)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for _, name := range set.Names() {
		dtype, _, _ := set.Lookup(name)
		if strings.HasSuffix(name, "down_proj.weight") && dtype != core.BFloat16 {
			t.Errorf("%s is %s", name, dtype)
		}
	}
	config, err := os.ReadFile(filepath.Join(out, "config.json"))
	if err != nil || !strings.Contains(string(config), ".down_proj") {
		t.Errorf("config.json does not name what stayed: %s, %v", config, err)
	}
	_, _, err = quantized(t, from, trainer.Int8, "nothing")
	wantText(t, err, `is called "nothing"`)
	_, _, err = quantized(t, from, trainer.Int8, "*")
	wantText(t, err, "no layer")
	_, _, err = quantized(t, from, "int4")
	wantText(t, err, "unknown scheme")
}

// wantIgnored checks which layers config.json says are not int8: other programs take all linear layers for it that are
// not listed, a head that is the embedding among them.
func wantIgnored(t *testing.T, dir string, layers ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Of models.Quantisation `json:"quantization_config"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(config.Of.Ignore); !slices.Equal(config.Of.Ignore, layers) {
		t.Errorf("config.json ignores %q, want %q", config.Of.Ignore, layers)
	}
}

// TestTheHeadCanBecomeInt8: one of its own, and one that is the embedding, which stays for the tokens that are looked up.
func TestTheHeadCanBecomeInt8(t *testing.T) {
	for _, folder := range []string{"stories260K", "stories260K-untied"} {
		from := testdata.Shared(t, "data", "models", folder)
		for _, scheme := range []trainer.Scheme{trainer.W8A8, trainer.W8A8Dynamic, trainer.Int8} {
			out, without, err := quantized(t, from, scheme)
			if err != nil {
				t.Fatal(err)
			}
			before := evaluated(t, out)
			wantIgnored(t, out, "lm_head", "model.embed_tokens")
			q := trainer.Quantization{Model: from, Out: filepath.Join(t.TempDir(), "q"), Scheme: scheme, Head: true}
			if scheme == trainer.W8A8 {
				q.Calibration, q.Batch, q.Seq = rows(t, 16), 2, 16
			}
			report, err := trainer.Quantize(t.Context(), q, plugintest.Memory(t))
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Int8) != len(without.Int8)+1 || len(report.Float) != 0 ||
				len(report.Dynamic) != len(without.Dynamic)+map[bool]int{scheme == trainer.W8A8: 1}[true] {
				t.Errorf("%s, %s: %+v", folder, scheme, report)
			}
			wantIgnored(t, q.Out, "model.embed_tokens")
			if got := evaluated(t, q.Out); got == before || !(math.Abs(got-before) <= 0.02*before) {
				t.Errorf("%s, %s: the loss is %v, without %v", folder, scheme, got, before)
			}
			m, err := models.LoadWith(q.Out, plugintest.Memory(t), models.LoadOptions{Frozen: true})
			if err != nil {
				t.Fatal(err)
			}
			layers := m.Linears()
			if l := layers[len(layers)-1]; l.Path() != "lm_head" || l.Weight.Tensor.DType != core.Int8 ||
				m.Params()[0].Tensor.DType == core.Int8 {
				t.Errorf("%s, %s: the head is %s, %s; the embedding %s", folder, scheme, l.Path(), l.Weight.Tensor.DType,
					m.Params()[0].Tensor.DType)
			}
		}
	}
}
