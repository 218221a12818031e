package main

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/models"
)

// readConfig reads the config.json of --model, and makes rows fit the model.
func (c *Command) readConfig(t *trainer.Config) ([]byte, error) {
	config, err := models.ReadConfig(t.Model)
	if err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	c.fitSeq(t, config)
	return config, nil
}

// fitSeq makes a row no longer than the model can take, unless --seq is given. What is wrong
// with a config.json is better said by whoever reads all of it.
func (c *Command) fitSeq(t *trainer.Config, config []byte) {
	if most := positions(config); !c.Flags.Changed("seq") && most > 1 {
		t.Seq = min(t.Seq, t.RowOf(most))
	}
}

// positions returns the model's longest sequence, 0 if that is not said.
func positions(config []byte) int {
	var c struct {
		Limit int `json:"max_position_embeddings"`
	}
	if json.Unmarshal(config, &c) != nil {
		return 0
	}
	return c.Limit
}

// shape builds the model that a run would train, without its weights, which are memory that
// nobody touches.
func shape(t trainer.Config, mem core.Memory) (*models.Model, error) {
	options, err := t.LoadOptions()
	if err != nil {
		return nil, err
	}
	var m *models.Model
	var config []byte
	if t.LoRA.Enabled() {
		m, err = models.Shape(t.Model, mem, options)
	} else if config, err = models.ReadConfig(t.Model); err == nil {
		if m, err = models.NewWith(config, mem, options); err != nil {
			err = fmt.Errorf("%s: %w", t.Model, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return m, cmp.Or(t.CheckLength(m), t.CheckParts(m))
}
