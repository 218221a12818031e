package lora

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/nn"
)

// What an adapter's folder may have besides adapters everywhere: layers that have some
// (layers_to_transform), and modules that were trained as they are (modules_to_save).

// within returns the targets of the layers that get adapters.
func (c Config) within(all []nn.Target) (chosen []nn.Target, err error) {
	if len(c.Layers) == 0 {
		return all, nil
	}
	found := map[int]bool{}
	for _, t := range all {
		if i, ok := layerOf(t.Name); ok && slices.Contains(c.Layers, i) {
			chosen, found[i] = append(chosen, t), true
		}
	}
	for _, i := range c.Layers {
		if !found[i] {
			return nil, fmt.Errorf("lora.Config.Layers has %d, but there is no such layer", i)
		}
	}
	return chosen, nil
}

// numbered is what a path has before the number of a layer.
const numbered = "layers"

// layerOf returns the number of the layer that a module is in.
func layerOf(path string) (int, bool) {
	_, rest, ok := strings.Cut(path, numbered+".")
	number, _, _ := strings.Cut(rest, ".")
	i, err := strconv.Atoi(number)
	return i, ok && err == nil
}

// numbers is a number or a list of them.
type numbers []int

// UnmarshalJSON implements json.Unmarshaler.
func (n *numbers) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) {
		var one *int
		if err := json.Unmarshal(b, &one); err != nil || one == nil {
			return err
		}
		*n = numbers{*one}
		return nil
	}
	return json.Unmarshal(b, (*[]int)(n))
}

// Modules returns what the folder of an adapter has whole, as its modules_to_save says.
func Modules(dir string) ([]string, error) {
	c, err := ReadConfig(dir)
	return c.Modules, err
}

// ReadConfig returns the configuration of an adapter in a folder.
func ReadConfig(dir string) (c Config, err error) {
	defer inFolder(&err, dir)
	c, _, err = readConfig(dir)
	return c, err
}

// keep finds what is trained as it is.
func (a *Adapter) keep() error {
	for _, p := range a.body.Params() {
		if !slices.ContainsFunc(a.config.Modules, func(m string) bool { return p.Named(m) > 0 }) {
			continue
		}
		for _, t := range a.targets {
			for _, module := range t.Modules {
				if slices.ContainsFunc(p.Entries, func(e nn.Entry) bool { return e.Name == module+".weight" }) {
					return fmt.Errorf("%s would have an adapter and be trained as it is: name it in lora.Config.Targets, or among "+
						"the modules, not in both", module)
				}
			}
		}
		a.whole = append(a.whole, p)
	}
	return a.keepsWhole()
}

// keepsWhole is an error if a module would be kept in part, which modules_to_save cannot say.
func (a *Adapter) keepsWhole() error {
	paths := a.wholeNames()
	for _, p := range a.body.Params() {
		if slices.Contains(a.whole, p) {
			continue
		}
		for _, e := range p.Entries {
			for _, path := range paths {
				if rest, is := strings.CutPrefix(e.Name, path+"."); is {
					return fmt.Errorf("%s would be trained as it is, but for its %s, and an adapter's folder has whole modules: "+
						"name %s in lora.Config.Modules, or leave it out", path, rest, path)
				}
			}
		}
	}
	return nil
}

// wholeTensors are those of the modules, under PEFT's names. An embedding that is the head, too, is
// there twice: PEFT has a copy of each module, and ties none.
func (a *Adapter) wholeTensors() (all []checkpoint.Named) {
	for _, p := range a.whole {
		for _, e := range p.Entries {
			all = append(all, checkpoint.Named{Name: prefix + e.Name, Tensor: e.View(p.Tensor)})
		}
		if p.Tied != "" {
			all = append(all, checkpoint.Named{Name: prefix + p.Tied, Tensor: p.Tensor})
		}
	}
	return all
}

// wholeNames are the modules' paths, for modules_to_save.
func (a *Adapter) wholeNames() (names []string) {
	for _, t := range a.wholeTensors() {
		name := strings.TrimPrefix(t.Name, prefix)
		names = append(names, name[:strings.LastIndexByte(name, '.')])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fillWhole takes over the modules of a file, whose tensors it removes from left.
func (a *Adapter) fillWhole(f *checkpoint.File, left map[string]bool) error {
	var room checkpoint.Room
	for _, p := range a.whole {
		for _, e := range p.Entries {
			if tied := prefix + p.Tied; p.Tied != "" && left[tied] && !left[prefix+e.Name] {
				return fmt.Errorf("it has %s and no %s, but the model has one tensor for both; set tie_word_embeddings to false "+
					"in its config.json, and give its files a %s", tied, prefix+e.Name, p.Tied)
			}
			if err := check(f, e); err != nil {
				return err
			}
			t, err := f.TensorIn(&room, prefix+e.Name)
			if err == nil {
				err = checkpoint.CheckFinite(prefix+e.Name, t)
			}
			if err != nil {
				return err
			}
			p.Set(e, t)
			delete(left, prefix+e.Name)
			if tied := prefix + p.Tied; p.Tied != "" && left[tied] {
				copied := bytes.Clone(t.Data)
				if t, err = f.TensorIn(&room, tied); err != nil {
					return err
				}
				if !bytes.Equal(copied, t.Data) {
					return fmt.Errorf("%s and %s differ, but the model has one tensor for both; set tie_word_embeddings to false in "+
						"its config.json, and give its files a %s", prefix+e.Name, tied, p.Tied)
				}
				delete(left, tied)
			}
		}
	}
	return nil
}
