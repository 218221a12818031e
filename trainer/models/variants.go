package models

import (
	"errors"
	"fmt"

	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/nn"
)

// AddVariant loads the adapter of a folder beside the model, whose weights stay as they are, for texts that ask for it
// by its name. It comes before kernels and programs. After an error the model can only be freed.
func (m *Model) AddVariant(name, dir string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("adapter %q: %w", name, err)
		}
	}()
	quantised, err := quantisationOf(m.RawConfig)
	switch {
	case err != nil:
		return err
	case quantised != nil && quantised.bnb == nil:
		return fmt.Errorf("config.json: quantization_config: %w", errQuantised)
	case m.Adapter != nil:
		return errors.New("the model was loaded with an adapter: load it without, and add that one, too")
	case name == "" || m.variants[name] != nil:
		return errors.New("an adapter needs a name of its own")
	}
	if err := checkpoint.VerifyModel(dir, lora.WeightsFile); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	v, err := lora.LoadVariant(&m.Body, dir)
	if err != nil {
		return err
	}
	if m.variants == nil {
		m.variants = map[string]*nn.Variant{}
	}
	m.variants[name] = v
	return nil
}

// Variant returns the one with that name, nil for the model alone, which has none.
func (m *Model) Variant(name string) (*nn.Variant, error) {
	v := m.variants[name]
	if v == nil && name != "" {
		return nil, fmt.Errorf("there is no adapter %q", name)
	}
	return v, nil
}
