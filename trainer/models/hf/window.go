package hf

// Sliding says which layers of a family see only some tokens back: those from layer From
// on, Size tokens including the token itself; a Size of 0 means none. With Typed, the
// field layer_types chooses the layers where it is given, as in Qwen.
type Sliding struct {
	Size, From int
	Typed      bool
}

// EverySliding reads sliding_window where it holds for all layers; null is none.
func (c *Config) EverySliding() Sliding {
	if c.SlidingWindow == nil {
		return Sliding{}
	}
	return Sliding{Size: *c.SlidingWindow}
}

// SwitchedSliding reads the fields of families that slide only with use_sliding_window.
func (c *Config) SwitchedSliding() Sliding {
	if !c.UseSlidingWindow || c.SlidingWindow == nil {
		return Sliding{Typed: true}
	}
	return Sliding{Size: *c.SlidingWindow, From: c.MaxWindowLayers, Typed: true}
}

const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
)

// windows returns the sliding window of each layer, 0 for none.
func (c *Config) windows(s Sliding) (func(layer int) int, error) {
	if c.SlidingWindow != nil && s.Size == *c.SlidingWindow && s.Size < 1 {
		return nil, configError("sliding_window is %d, must be positive, or null for none", s.Size)
	}
	window := func(layer int) int {
		if layer < s.From {
			return 0
		}
		return s.Size
	}
	if c.LayerTypes == nil {
		return window, nil
	}
	if len(c.LayerTypes) != c.NumHiddenLayers {
		return nil, configError("layer_types has %d entries for num_hidden_layers %d", len(c.LayerTypes), c.NumHiddenLayers)
	}
	for i, kind := range c.LayerTypes {
		switch {
		case kind != fullAttention && kind != slidingAttention:
			return nil, configError("layer_types: %q of layer %d is not supported; supported: %s, %s", kind, i, fullAttention,
				slidingAttention)
		case kind == slidingAttention && s.Size == 0:
			return nil, configError("layer_types: layer %d is %s, but no sliding_window is in use", i, kind)
		case !s.Typed && (kind == slidingAttention) != (window(i) > 0):
			return nil, configError("layer_types: layer %d cannot be %s in model_type %s", i, kind, c.ModelType)
		}
	}
	return func(layer int) int {
		if c.LayerTypes[layer] == slidingAttention {
			return s.Size
		}
		return 0
	}, nil
}

// LayerType returns what layer_types calls a layer with or without a sliding window.
func LayerType(sliding bool) string {
	if sliding {
		return slidingAttention
	}
	return fullAttention
}
