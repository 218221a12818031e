package models_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// TestAnAdapterBesideTheModelIsRefused where the model cannot have it, or where its name says too little.
func TestAnAdapterBesideTheModelIsRefused(t *testing.T) {
	dir := stored(t, "llama", core.Float32)
	adapter := saveAdapter(t, loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: 2}}))
	for name, tt := range map[string]struct {
		load func() *models.Model
		as   string
		want string
	}{
		"twice": {func() *models.Model {
			m := loadWith(t, dir, models.LoadOptions{Frozen: true})
			if err := m.AddVariant("x", adapter); err != nil {
				t.Fatal(err)
			}
			return m
		}, "x", "an adapter needs a name of its own"},
		"no name": {func() *models.Model { return loadWith(t, dir, models.LoadOptions{Frozen: true}) }, "",
			"an adapter needs a name of its own"},
		"one within": {func() *models.Model {
			return loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Adapter: adapter}})
		}, "x", "the model was loaded with an adapter"},
		"int8": {func() *models.Model {
			m := loadWith(t, dir, models.LoadOptions{Frozen: true})
			var c map[string]any
			if err := json.Unmarshal(m.RawConfig, &c); err != nil {
				t.Fatal(err)
			}
			c["quantization_config"] = models.NewQuantisation(core.DynamicScaling, nil, nil)
			b, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			m.RawConfig = b
			return m
		}, "x", "config.json: quantization_config: "},
	} {
		t.Run(name, func(t *testing.T) {
			m := tt.load()
			defer m.Free()
			if err := m.AddVariant(tt.as, adapter); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}
