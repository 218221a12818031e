package models_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// raw is a tensor of unsigned bytes.
func raw(shape core.Shape, b ...byte) core.Tensor {
	return core.Tensor{DType: core.Int8, Shape: shape, Data: b}
}

// bnbFolder writes a model folder as bitsandbytes' users save one: the tensors, of which raw ones are of bytes, and a
// quantization_config.
func bnbFolder(t *testing.T, config []byte, quantised map[string]any, tensors map[string]core.Tensor,
	raw ...string) string {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(config, &fields); err != nil {
		t.Fatal(err)
	}
	fields["quantization_config"] = quantised
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	var named []checkpoint.Named
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		named = append(named, checkpoint.Named{Name: name, Tensor: tensors[name]})
	}
	dir := folder(t, text, named)
	path := filepath.Join(dir, checkpoint.SingleFile)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range raw {
		is, bytesOf := fmt.Sprintf(`"%s":{"dtype":"I8"`, name), fmt.Sprintf(`"%s":{"dtype":"U8"`, name)
		if !bytes.Contains(file, []byte(is)) {
			t.Fatalf("the header has no %s", is)
		}
		file = bytes.Replace(file, []byte(is), []byte(bytesOf), 1)
	}
	if err := os.WriteFile(path, file, 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fourBits is a quantization_config as transformers writes it.
func fourBits() map[string]any {
	return map[string]any{"quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": false,
		"_load_in_4bit": true, "_load_in_8bit": false, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": true,
		"bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8", "llm_int8_skip_modules": nil,
		"llm_int8_threshold": 6.0, "llm_int8_has_fp16_weight": false, "llm_int8_enable_fp32_cpu_offload": false}
}

// plainTensors are the tensors of a model, by name.
func plainTensors(t *testing.T, m *models.Model) map[string]core.Tensor {
	t.Helper()
	all := map[string]core.Tensor{}
	for _, n := range named(t, m) {
		all[n.Name] = n.Tensor
	}
	return all
}

// recording reads what published code made of a weight.
func recordedWeight(t *testing.T, variant string) func(name string) core.Tensor {
	t.Helper()
	f, err := checkpoint.Open(testdata.Shared(t, "golden", "ops", "quantize_weight.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return func(name string) core.Tensor {
		x, err := f.Tensor(variant + "." + name)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// low returns the lowest byte of each number.
func low[T int32 | int64](v []T) (b []byte) {
	for _, x := range v {
		b = append(b, byte(x))
	}
	return b
}

// fourBitFolder is a model whose first k_proj is the recorded weight of 132 by 128 in NF4 with double quantisation. Its
// first byte of absmax is 127, so that the map can tell whether it is read.
func fourBitFolder(t *testing.T, change func(tensors map[string]core.Tensor, state map[string]any)) (string,
	core.Tensor) {
	t.Helper()
	w := recordedWeight(t, "nf4_dq")
	m := newModel(t, family("llama", with("hidden_size", 128), with("num_attention_heads", 2),
		with("num_key_value_heads", 2), with("head_dim", 66)), 1)
	tensors := plainTensors(t, m)
	const name = "model.layers.0.self_attn.k_proj.weight"
	values := make([]float32, 256)
	for i := range values {
		values[i] = float32(int8(i)) / 2
	}
	scale := w("f32.absmax_scale")
	for i := range scale.Float32s() {
		scale.Float32s()[i] *= 2 // a power of two, which changes no bit of the product
	}
	packed := low(w("out.packed").Int64s())
	absmax := low(w("out.absmax_q").Int32s())
	tensors[name] = raw(core.Shape{len(packed), 1}, packed...)
	tensors[name+".absmax"] = raw(core.Shape{len(absmax)}, absmax...)
	tensors[name+".quant_map"] = w("in.nf4_table")
	tensors[name+".nested_absmax"] = scale
	tensors[name+".nested_quant_map"] = core.FromFloat32(values, 256)
	state := map[string]any{"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": []int{132, 128},
		"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": w("f32.absmax_mean").Float32s()[0]}
	if change != nil {
		change(tensors, state)
	}
	text, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	tensors[name+".quant_state.bitsandbytes__nf4"] = raw(core.Shape{len(text)}, text...)
	raws := []string{name + ".quant_state.bitsandbytes__nf4"}
	for _, may := range []string{name, name + ".absmax"} {
		if tensors[may].DType == core.Int8 {
			raws = append(raws, may)
		}
	}
	return bnbFolder(t, m.RawConfig, fourBits(), tensors, raws...), w("f32.dequant")
}

// weightOf returns a weight in float32.
func weightOf(t *testing.T, m *models.Model, name string) []float32 {
	t.Helper()
	for _, p := range m.Params() {
		if p.Name == name {
			w := make([]float32, p.Tensor.Elems())
			for cols, i := p.Tensor.Shape[1], 0; i < len(w); i += cols {
				p.Load(w[i:][:cols], i)
			}
			return w
		}
	}
	t.Fatalf("the model has no %s", name)
	return nil
}

// TestFourBitsOfBitsAndBytesAreReadToTheBit: the weight is what published code says; it is written with, and adapters
// are trained on it.
func TestFourBitsOfBitsAndBytesAreReadToTheBit(t *testing.T) {
	dir, want := fourBitFolder(t, nil)
	for _, o := range []models.LoadOptions{{Frozen: true}, {LoRA: lora.Config{Rank: 2}}} {
		m := loadWith(t, dir, o)
		got := weightOf(t, m, "model.layers.0.self_attn.k_proj.weight")
		if !slices.Equal(got, want.Float32s()) {
			t.Errorf("%+v: the weight differs by %.3g", o, distance(got, want.Float32s()))
		}
		if logits, loss := evaluate(t, m); len(logits) == 0 || math.IsNaN(loss) {
			t.Errorf("the loss is %g", loss)
		}
	}
}

// TestFourBitsMayBeStoredAsNumbers: bnb_4bit_quant_storage is another type than uint8 where FSDP is to cut the codes up.
func TestFourBitsMayBeStoredAsNumbers(t *testing.T) {
	const name = "model.layers.0.self_attn.k_proj.weight"
	for _, as := range []core.DType{core.BFloat16, core.Float16, core.Float32} {
		dir, want := fourBitFolder(t, func(tensors map[string]core.Tensor, _ map[string]any) {
			codes := tensors[name].Data
			tensors[name] = core.Tensor{DType: as, Shape: core.Shape{len(codes) / as.Size(), 1}, Data: codes}
		})
		got := weightOf(t, loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: 2}}), name)
		if !slices.Equal(got, want.Float32s()) {
			t.Errorf("%s: the weight differs by %.3g", as, distance(got, want.Float32s()))
		}
	}
}

// TestFourBitsWithoutDoubleQuantisationAreWidened: to what published code says, to the bit; and nothing writes them back.
func TestFourBitsWithoutDoubleQuantisationAreWidened(t *testing.T) {
	w := recordedWeight(t, "nf4")
	m := newModel(t, family("llama", with("hidden_size", 128), with("num_attention_heads", 2),
		with("num_key_value_heads", 2), with("head_dim", 8)), 1)
	tensors := plainTensors(t, m)
	const name = "model.layers.0.self_attn.k_proj.weight"
	packed := low(w("out.packed").Int64s())
	tensors[name] = raw(core.Shape{len(packed), 1}, packed...)
	tensors[name+".absmax"], tensors[name+".quant_map"] = w("f32.absmax"), w("in.nf4_table")
	text := []byte(`{"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [16, 128]}`)
	tensors[name+".quant_state.bitsandbytes__nf4"] = raw(core.Shape{len(text)}, text...)
	config := fourBits()
	config["bnb_4bit_use_double_quant"] = false
	dir := bnbFolder(t, m.RawConfig, config, tensors, name, name+".quant_state.bitsandbytes__nf4")
	for _, o := range []models.LoadOptions{{Frozen: true}, {LoRA: lora.Config{Rank: 2}}} {
		m := loadWith(t, dir, o)
		if got, want := weightOf(t, m, name), w("f32.dequant").Float32s(); !slices.Equal(got, want) {
			t.Errorf("%+v: the weight differs by %.3g", o, distance(got, want))
		}
		if logits, loss := evaluate(t, m); len(logits) == 0 || math.IsNaN(loss) {
			t.Errorf("the loss is %g", loss)
		}
		if _, err := m.Named(); err == nil || !strings.Contains(err.Error(), name+" is nf4 in its file") {
			t.Errorf("what a folder would keep: error %v", err)
		}
	}
	refused(t, dir, models.LoadOptions{}, "train adapters, with lora.Config.Rank")
}

// TestEightBitsOfBitsAndBytesAreRead: 127 stands for the largest magnitude of a row.
func TestEightBitsOfBitsAndBytesAreRead(t *testing.T) {
	m := newModel(t, family("llama"), 1)
	tensors := plainTensors(t, m)
	const layer = "model.layers.1.mlp.down_proj."
	rows, cols := tensors[layer+"weight"].Shape[0], tensors[layer+"weight"].Shape[1]
	q, scb := core.NewTensor(core.Int8, rows, cols), core.NewTensor(core.Float32, rows)
	want := make([]float32, rows*cols)
	for i := range want {
		scb.Float32s()[i/cols] = 0.5 + float32(i/cols)
		q.Int8s()[i] = int8(i*7%255 - 127)
		want[i] = float32(q.Int8s()[i]) * scb.Float32s()[i/cols] / 127
	}
	tensors[layer+"weight"], tensors[layer+"SCB"] = q, scb
	tensors[layer+"weight_format"] = raw(core.Shape{}, 0)
	config := map[string]any{"quant_method": "bitsandbytes", "load_in_8bit": true}
	dir := bnbFolder(t, m.RawConfig, config, tensors, layer+"weight_format")
	got := weightOf(t, loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: 2}}), layer+"weight")
	if d := distance(got, want); !(d <= 2e-7) {
		t.Errorf("the weight differs by %.3g", d)
	}
	tensors[layer+"weight_format"] = raw(core.Shape{}, 2)
	refused(t, bnbFolder(t, m.RawConfig, config, tensors, layer+"weight_format"), models.LoadOptions{Frozen: true},
		layer+"weight_format is [2], and not 0")
	delete(tensors, layer+"SCB")
	delete(tensors, layer+"weight_format")
	refused(t, bnbFolder(t, m.RawConfig, config, tensors), models.LoadOptions{Frozen: true}, layer+"SCB")
}

func refused(t *testing.T, dir string, o models.LoadOptions, want string) {
	t.Helper()
	if _, err := models.LoadWith(dir, autograd.Heap{}, o); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q in it", err, want)
	}
}

// TestWhatBitsAndBytesSavesOtherwiseIsRefusedByName: the tensor or the field, and what to do.
func TestWhatBitsAndBytesSavesOtherwiseIsRefusedByName(t *testing.T) {
	const name = "model.layers.0.self_attn.k_proj.weight"
	for want, change := range map[string]func(map[string]core.Tensor, map[string]any){
		`quant_type is "fp4"`: func(_ map[string]core.Tensor, s map[string]any) { s["quant_type"] = "fp4" },
		"blocksize is 128":    func(_ map[string]core.Tensor, s map[string]any) { s["blocksize"] = 128 },
		"shape is [128 132], want [132 128]": func(_ map[string]core.Tensor, s map[string]any) {
			s["shape"] = []int{128, 132}
		},
		"nested_blocksize is 0, want 256": func(_ map[string]core.Tensor, s map[string]any) { delete(s, "nested_blocksize") },
		"nested_blocksize is 256, but absmax is float32": func(x map[string]core.Tensor, _ map[string]any) {
			x[name+".absmax"] = core.NewTensor(core.Float32, 264)
		},
		"no place in this model: " + name + ".nested_absmax": func(x map[string]core.Tensor, s map[string]any) {
			delete(s, "nested_blocksize")
			x[name+".absmax"] = core.NewTensor(core.Float32, 264)
		},
		"absmax is [263], want 264 numbers": func(x map[string]core.Tensor, s map[string]any) {
			delete(s, "nested_blocksize")
			x[name+".absmax"] = core.NewTensor(core.Float32, 263)
		},
		"nested_offset is missing":             func(_ map[string]core.Tensor, s map[string]any) { delete(s, "nested_offset") },
		"nested_blocksize is 64":               func(_ map[string]core.Tensor, s map[string]any) { s["nested_blocksize"] = 64 },
		name + ".quant_map has other values":   func(x map[string]core.Tensor, _ map[string]any) { x[name+".quant_map"].Float32s()[3]++ },
		name + ".nested_quant_map":             func(x map[string]core.Tensor, _ map[string]any) { delete(x, name+".nested_quant_map") },
		name + ".absmax is missing, or not of": func(x map[string]core.Tensor, _ map[string]any) { delete(x, name+".absmax") },
		"has no place in this model: " + name:  func(x map[string]core.Tensor, _ map[string]any) { x[name+".more"] = core.NewTensor(core.Float32, 1) },
		"nested_absmax is [1], want 2 numbers": func(x map[string]core.Tensor, _ map[string]any) {
			x[name+".nested_absmax"] = core.NewTensor(core.Float32, 1)
		},
		"nested_quant_map has the value NaN": func(x map[string]core.Tensor, _ map[string]any) {
			x[name+".nested_quant_map"].Float32s()[0] = float32(math.NaN())
		},
	} {
		dir, _ := fourBitFolder(t, change)
		refused(t, dir, models.LoadOptions{Frozen: true}, want)
	}
	dir, _ := fourBitFolder(t, nil)
	refused(t, dir, models.LoadOptions{}, "train adapters, with lora.Config.Rank")
	refused(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: 2, BaseNF4: true}}, "leave lora.Config.BaseInt8 and")
	refused(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: 2, Init: lora.PiSSA}}, "lora.Config.BaseNF4")
	for want, change := range map[string]func(map[string]any){
		`bnb_4bit_quant_type is "fp4"`: func(c map[string]any) { c["bnb_4bit_quant_type"] = "fp4" },
		"want one of them":             func(c map[string]any) { c["load_in_4bit"] = false },
	} {
		c := fourBits()
		change(c)
		m := newModel(t, family("llama"), 1)
		refused(t, bnbFolder(t, m.RawConfig, c, plainTensors(t, m)), models.LoadOptions{Frozen: true}, want)
	}
	m := newModel(t, family("llama"), 1)
	tensors := plainTensors(t, m)
	tensors[name] = raw(tensors[name].Shape, make([]byte, tensors[name].Elems())...)
	bare := bnbFolder(t, m.RawConfig, nil, tensors, name)
	refused(t, bare, models.LoadOptions{Frozen: true}, name+" of")
}
