package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/nn"
)

// LoadOptions say what is to become of a model. The zero value is for training all of it.
type LoadOptions struct {
	LoRA   lora.Config // adapters, new ones or those of a folder; all else is then frozen
	Seed   uint64      // of new adapters
	Frozen bool        // all is frozen: for a model that is not trained
	// Train says which parameters are trained; all of them, or, with adapters, none, by default.
	Train Selection
	// Vocabulary is how the model grows by new tokens; an adapter's folder brings its own.
	Vocabulary Vocabulary
	// Narrow has what is trained stored in bfloat16 and saved so: matrices in memory, too, without another copy.
	Narrow bool
	// Objective is what training adds to the plain loss.
	Objective nn.Objective

	// Check, if there is one, is asked about the model before its weights are read, and
	// before it gets adapters. Its error ends the loading.
	Check func(*Model) error
}

// Load reads a model folder for training: LoadWith without options.
func Load(dir string, mem core.Memory) (*Model, error) { return LoadWith(dir, mem, LoadOptions{}) }

// LoadWith reads a model folder: config.json and model.safetensors, or its shards. Every
// tensor of the files must be used and every parameter must be found, with the shape
// that the configuration gives it. Frozen matrices keep the dtype of the files in memory;
// all other parameters are float32. A value that is not finite, or a file that differs from
// the checksum saved with it, is an error.
func LoadWith(dir string, mem core.Memory, o LoadOptions) (*Model, error) {
	return o.load(dir, mem, true)
}

// Shape is LoadWith without the weights: the model has the same parameters, sites and
// adapters, for a forecast.
func Shape(dir string, mem core.Memory, o LoadOptions) (*Model, error) {
	return o.load(dir, mem, false)
}

// ReadConfig reads the file that makes a folder a model folder.
func ReadConfig(dir string) ([]byte, error) {
	if dir == "" {
		return nil, errors.New("the name of the model's folder is empty; name a Hugging Face model folder")
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, absent(dir, err)
	case err != nil:
		return nil, plainfile.Explain(err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is a file; name the folder that it is in", dir)
	}
	config, err := os.ReadFile(filepath.Join(dir, configFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return config, plainfile.Explain(err)
	}
	if _, err := os.Stat(filepath.Join(dir, lora.ConfigFile)); err == nil {
		return nil, fmt.Errorf("%s has an adapter and no %s; give the folder of its model as the model, and this one as the adapter", dir, configFile)
	}
	return nil, fmt.Errorf("%s has no %s; it must be a Hugging Face model folder", dir, configFile)
}

const configFile = "config.json"

// load compares the files with their checksums while it reads them. What these find is the
// cause of anything else.
func (o LoadOptions) load(dir string, mem core.Memory, weights bool) (*Model, error) {
	if mem == nil {
		return nil, fmt.Errorf("models: %w", nn.NewBuilder(nil).Err())
	}
	if !weights {
		return o.read(dir, mem, false)
	}
	var damage error
	var wg sync.WaitGroup
	wg.Go(func() { damage = Verify(dir, o.LoRA.Adapter) })
	m, err := o.read(dir, mem, true)
	wg.Wait()
	if damage != nil && m != nil {
		m.Free()
	}
	if damage != nil {
		return nil, damage
	}
	return m, err
}

// Verify compares the files of a model folder, and of that of its adapter if there is one,
// with the checksums that tune has saved with them, if it has.
func Verify(dir, adapter string) error {
	err := checkpoint.VerifyModel(dir, checkpoint.SingleFile)
	if adapter != "" {
		err = errors.Join(err, checkpoint.VerifyModel(adapter, lora.WeightsFile))
		dir += ", or " + adapter
	}
	if errors.Is(err, checkpoint.ErrDamaged) {
		err = fmt.Errorf("models: %w\ntake another copy, or an earlier checkpoint; if the change is meant, remove %s from %s", err, checkpoint.SumsFile, dir)
	}
	return err
}

func (o LoadOptions) read(dir string, mem core.Memory, weights bool) (*Model, error) {
	if err := errors.Join(o.LoRA.Validate(), o.Train.Validate(o.LoRA.Enabled())); err != nil {
		return nil, err
	}
	config, err := ReadConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	if _, err := route(config); err != nil { // before anything about weights
		return nil, fmt.Errorf("models: %s: %w", dir, err)
	}
	quantised, err := quantisationOf(config)
	if err == nil && quantised != nil {
		err = quantised.trains(o)
	}
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", dir, err)
	}
	if err := o.ownModules(); err != nil {
		return nil, err
	}
	if config, err = o.Vocabulary.grow(config); err == nil && o.Narrow && !o.LoRA.Enabled() {
		config, err = narrowed(config)
	}
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	if err := usualWeights(config); err != nil {
		return nil, fmt.Errorf("models: %s: %w", dir, err)
	}
	set, err := checkpoint.OpenDir(dir)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	defer set.Close()
	allowed := newAllowance(mem, set)
	stored := func(name string) core.DType {
		dtype, _, _ := set.Lookup(name)
		if quantised != nil && quantised.bnb.isNF4(set, name) {
			return quantised.bnb.storedAs(set, name)
		}
		return dtype
	}
	b, chosen := o.builder(allowed, config, stored)
	if quantised != nil {
		quantised.scales(b, stored)
	}
	m, err := construct(config, b)
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", dir, err)
	}
	if quantised != nil {
		m.Quantised = quantised.Method
	}
	if err = errors.Join(chosen.check(m), o.Vocabulary.trained(m, o)); err != nil {
		err = fmt.Errorf("models: %s: %w", dir, err)
	}
	if err == nil && weights && o.Check != nil {
		err = o.Check(m)
	}
	var apart *lora.Decomposition
	if err == nil && weights {
		if apart, err = lora.NewDecomposition(&m.Body, o.LoRA); err == nil {
			err = m.fill(set, o.Vocabulary, apart, quantised)
		}
		if err != nil {
			err = fmt.Errorf("models: %s: %w", dir, err)
		}
	}
	if err != nil {
		m.Free()
		return nil, err
	}
	allowed.lift()
	return m.adapted(o, dir, weights, apart)
}

// builder returns one whose parameters are frozen, if they are to be, and what decides that. stored gives
// the dtype of a tensor in the files.
func (o LoadOptions) builder(mem core.Memory, config []byte, stored func(name string) core.DType) (*nn.Builder,
	*chooser) {
	var c struct {
		Layers int `json:"num_hidden_layers"`
	}
	_ = json.Unmarshal(config, &c) // construct says what is wrong with it
	b := nn.NewBuilder(mem)
	if o.Narrow {
		b.Narrow(core.BFloat16)
	}
	return b, o.freeze(b, c.Layers, stored)
}

// narrowed has a config.json say that its weights are in bfloat16, by both names that transformers has had for that.
func narrowed(config []byte) ([]byte, error) {
	var err error
	for _, name := range []string{"torch_dtype", "dtype"} {
		if err == nil {
			config, _, err = plainjson.Splice(config, name, func([]byte) ([]byte, error) { return []byte(`"bfloat16"`), nil })
		}
	}
	return config, err
}

// ownModules takes over what the folder of an adapter says was trained beside it.
func (o *LoadOptions) ownModules() error {
	if o.LoRA.Adapter == "" {
		return nil
	}
	own, err := lora.Modules(o.LoRA.Adapter)
	if err == nil && len(own) > 0 {
		err = o.Vocabulary.ofAdapter(o.LoRA.Adapter)
	}
	if err == nil && len(o.Train.Modules) > 0 && !slices.Equal(o.Train.Modules, own) {
		err = errors.New("models.Selection.Modules: an adapter that is trained further brings its own, in its " +
			"adapter_config.json: leave it out")
	}
	o.Train.Modules = own
	return err
}

// adapted returns the model with adapters, if there are to be any. weights says that its own are there, and apart has
// what was taken off them.
func (m *Model) adapted(o LoadOptions, dir string, weights bool, apart *lora.Decomposition) (_ *Model, err error) {
	if err = m.SetObjective(o.Objective); err != nil {
		m.Free()
		return nil, fmt.Errorf("models: %w", err)
	}
	switch {
	case o.Narrow && !o.LoRA.Enabled():
		for _, p := range m.Params() {
			for _, e := range p.Entries {
				m.stored[e.Name] = core.BFloat16
			}
		}
	case o.LoRA.Adapter != "":
		if m.Adapter, err = lora.Load(&m.Body, o.LoRA.Adapter); err == nil {
			err = o.Vocabulary.whole(m)
		}
	case o.LoRA.Enabled():
		o.LoRA.Modules = o.Train.Modules
		if m.Adapter, err = lora.New(&m.Body, o.LoRA, dir, o.Seed); err == nil && weights {
			m.Adapter.Begin()
		}
		if err == nil && apart != nil {
			err = m.Adapter.BeginWith(apart)
		}
	}
	if err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

// frozenDType chooses how a frozen parameter is stored: as the files have it, unless that
// is several dtypes; vectors, which are small, as float32; and all matrices
// as base, if that is one and can hold them, but for the embedding, the head, and routers, where a small difference sends a
// token elsewhere.
func frozenDType(p *nn.Param, stored func(name string) core.DType, base core.DType) core.DType {
	if len(p.Tensor.Shape) < 2 {
		return core.Float32
	}
	apart := func(suffix string) bool { return strings.HasSuffix(p.Name, suffix) }
	holds := base != core.InvalidDType && (base != core.NF4 || p.HoldsNF4())
	if holds && !apart("embed_tokens.weight") && !apart("lm_head.weight") && !apart(".gate.weight") &&
		!apart(".router.weight") && !apart("_bias") {
		return base
	}
	dtype := core.InvalidDType
	for _, e := range p.Entries {
		d := stored(e.Name)
		if dtype != core.InvalidDType && d != dtype {
			return core.Float32
		}
		dtype = d
	}
	switch dtype {
	case core.BFloat16, core.Float16:
		return dtype
	case core.Int8, core.NF4: // what rows are taken of, or added, has no scales; the file is refused then
		if !apart("embed_tokens.weight") && !apart("_bias") {
			return dtype
		}
	}
	return core.Float32
}

func (m *Model) fill(set *checkpoint.Set, vocabulary Vocabulary, apart *lora.Decomposition, q *Quantisation) error {
	var missing, wrong []string
	var room checkpoint.Room
	unused := m.unused(set)
	if q != nil {
		m.bnb = q.bnb
	}
	for _, p := range slices.Concat(m.Params(), m.Buffers()) {
		for _, e := range p.Entries {
			dtype, shape, ok := set.Lookup(e.Name)
			if !ok {
				missing = append(missing, e.Name)
				continue
			}
			if q != nil && q.bnb.has(set, e.Name) {
				used, err := q.bnb.fill(set, p, e)
				for _, name := range append(used, e.Name) {
					delete(unused, name)
				}
				if err != nil {
					wrong = append(wrong, err.Error())
				}
				if q.bnb.isNF4(set, e.Name) {
					m.stored[e.Name] = core.NF4
				}
				continue
			}
			into := &room
			if to := e.View(p.Tensor); to.DType == dtype && to.Shape.Equal(shape) {
				into = checkpoint.RoomOf(to) // spares a copy
			}
			t, err := set.TensorIn(into, e.Name)
			if err != nil {
				return err
			}
			delete(unused, e.Name)
			if t.DType == core.Int8 {
				scale, err := fillInt8(set, p, e, t)
				delete(unused, scale)
				if err != nil {
					wrong = append(wrong, err.Error())
				}
				continue
			}
			if err := checkpoint.CheckFinite(e.Name, t); err != nil {
				return err
			}
			if isVocabulary(p) && len(shape) > 0 {
				m.known[p.Name] = shape[0]
			}
			m.stored[e.Name] = t.DType
			if vocabulary.widen(p, e, t) {
				continue
			}
			if t, err = apart.Rest(e.Name, t); err != nil {
				return err
			}
			if err := read(p, e, t); err != nil {
				wrong = append(wrong, err.Error())
			}
		}
	}
	tied := m.checkTied(set)
	vocabulary.start(m)
	static := m.fillStatic(set, func(name string) { delete(unused, name) })
	return errors.Join(tied, static, misfits(missing, unused, wrong))
}

// Named returns the tensors as files keep them: original names, and original dtypes for
// a model that was loaded. Those of half precision are narrowed while they are written; one that has a value
// its dtype cannot hold stays float32. A value that is not finite is an error that names the
// tensor. Adapters are not among them, and a model in int8 or NF4 has lost them.
func (m *Model) Named() ([]checkpoint.Named, error) {
	var out []checkpoint.Named
	for _, p := range slices.Concat(m.Params()[:m.base], m.Buffers()) {
		for _, e := range p.Entries {
			t := e.View(p.Tensor)
			switch {
			case t.DType == core.Int8 || t.DType == core.NF4:
				if m.Rounding == nil {
					return nil, lost(e.Name, t.DType)
				}
				quantised, err := m.bnb.save(p, e)
				if err != nil {
					return nil, err
				}
				out = append(out, quantised...)
				continue
			case m.stored[e.Name] == core.NF4:
				return nil, fmt.Errorf("%s is nf4 in its file and cannot be saved: take the model that was not quantised", e.Name)
			}
			if _, found := checkpoint.NonFinite(t); found {
				return nil, fmt.Errorf("%s has values that are not finite; if training made them, lower the learning rate", e.Name)
			}
			n := checkpoint.Named{Name: e.Name, Tensor: t}
			if d := m.Stored(e.Name); t.DType == core.Float32 && d != core.Float32 {
				if n.As = d; n.Overflows() {
					n.As = core.InvalidDType
				}
			}
			out = append(out, n)
		}
	}
	return out, nil
}
