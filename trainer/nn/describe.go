package nn

import "github.com/seed98097648/tune/core"

// Config returns what the model was built from, for who writes it in another format.
func (d *Decoder) Config() DecoderConfig { return d.cfg }

// CacheBytes returns the memory that the keys and values of a token take in a layer of a Cache.
func (d *Decoder) CacheBytes() int {
	a := d.layers[0].attention.cfg // has what Latent makes of HeadDim
	return 2 * core.Float32.Size() * a.KVHeads * a.HeadDim
}

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
