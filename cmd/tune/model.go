package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// readConfig reads the file that makes a folder a model folder.
func readConfig(dir string) ([]byte, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--model: %s has no config.json; it must be a Hugging Face model folder", dir)
	}
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
