package models

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
)

// Merge adds the adapter to the weights, which keep their dtype, and does away with it.
// After an error the model must not be used.
func (m *Model) Merge() error {
	if m.bnb == nil {
		if err := m.Adapter.Merge(); err != nil {
			return err
		}
	} else {
		rounding, err := m.Adapter.MergeQuantised()
		if err != nil {
			return err
		}
		m.Rounding = &rounding
	}
	m.Adapter = nil
	return nil
}

// Saved is what a folder keeps of a model: the two files that make it one.
type Saved struct {
	ConfigFile  string
	Config      []byte
	WeightsFile string
	Weights     []checkpoint.Named
	Widened     []string // the names of those that have outgrown their dtype, and are float32
}

// ConfigFile names the file that makes a folder one with the model, or with its adapter.
func (m *Model) ConfigFile() string {
	if m.Adapter != nil {
		return lora.ConfigFile
	}
	return configFile
}

// Saved returns what has been trained: the model, or its adapter alone if it has one. See
// Named for the errors.
func (m *Model) Saved() (Saved, error) {
	if m.Adapter == nil {
		weights, err := m.Named()
		return Saved{m.ConfigFile(), m.RawConfig, checkpoint.SingleFile, weights, m.widened(weights)}, err
	}
	config, err := m.Adapter.JSON()
	if err != nil {
		return Saved{}, err
	}
	weights, err := m.Adapter.Named()
	return Saved{m.ConfigFile(), config, lora.WeightsFile, weights, nil}, err
}

func (m *Model) widened(weights []checkpoint.Named) (names []string) {
	for _, w := range weights {
		if w.DType() == core.Float32 && m.Stored(w.Name) != core.Float32 {
			names = append(names, w.Name)
		}
	}
	return names
}
