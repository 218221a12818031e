package models_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
)

// TestWeightsThatAreCutShortWhileTheyAreLoaded, as by a download that begins again, are an
// error that names the file and gives back the memory of what was loaded.
func TestWeightsThatAreCutShortWhileTheyAreLoaded(t *testing.T) {
	dir := stored(t, "llama", core.BFloat16)
	path := filepath.Join(dir, checkpoint.SingleFile)
	o := models.LoadOptions{Check: func(*models.Model) error { return os.Truncate(path, 4096) }}
	m, err := models.LoadWith(dir, autograd.Heap{}, o)
	if err == nil {
		m.Free()
	}
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("error %v", err)
	}
}
