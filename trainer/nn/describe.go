package nn

// Config returns what the model was built from, for who writes it in another format.
func (d *Decoder) Config() DecoderConfig { return d.cfg }

// Experts returns what the experts of a layer were built from, false for a layer without.
func (d *Decoder) Experts(layer int) (MoEConfig, bool) {
	switch m := d.layers[layer].block.(type) {
	case *MoE:
		return m.cfg, true
	case *ClampedMoE:
		return m.cfg, true
	}
	return MoEConfig{}, false
}
