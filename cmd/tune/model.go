package main

import (
	"encoding/json"
	"fmt"

	"github.com/seed98097648/tune/trainer/models"
)

// readConfig reads the config.json of --model.
func readConfig(dir string) ([]byte, error) {
	config, err := models.ReadConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	return config, nil
}

// fitSeq returns the default length of a row, or the model's longest sequence if that is
// shorter. What is wrong with a config.json is better said by whoever reads all of it.
func fitSeq(seq int, config []byte) int {
	var c struct {
		Limit int `json:"max_position_embeddings"`
	}
	if json.Unmarshal(config, &c) == nil && c.Limit > 1 {
		return min(seq, c.Limit)
	}
	return seq
}
