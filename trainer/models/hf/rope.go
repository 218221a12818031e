package hf

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/trainer/nn"
)

// RopeScaling is the field rope_scaling, or rope_parameters in newer files, which
// also holds the base.
type RopeScaling struct {
	RopeType                      string   `json:"rope_type"`
	Type                          string   `json:"type"` // the older name of rope_type
	RopeTheta                     float64  `json:"rope_theta"`
	Factor                        float64  `json:"factor"`
	OriginalMaxPositionEmbeddings int      `json:"original_max_position_embeddings"`
	LowFreqFactor                 float64  `json:"low_freq_factor"`
	HighFreqFactor                float64  `json:"high_freq_factor"`
	AttentionFactor               *float64 `json:"attention_factor"`
	BetaFast                      *float64 `json:"beta_fast"`
	BetaSlow                      *float64 `json:"beta_slow"`
	MScale                        float64  `json:"mscale"`
	MScaleAllDim                  float64  `json:"mscale_all_dim"`
	Truncate                      *bool    `json:"truncate"`
}

// RopeTable computes the inverse frequencies and the scale of cosine and sine. This is
// the one place where the size of the rotated part of a head is computed.
//
// The formulas are those of transformers' modeling_rope_utils: "default" is Su et al.
// (RoFormer, 2021), "linear" is position interpolation, "llama3" is Meta's smoothed
// interpolation, "yarn" is Peng et al. (YaRN, 2023).
func (c *Config) RopeTable() (*nn.RopeTable, error) {
	s := RopeScaling{}
	for _, given := range []*RopeScaling{c.RopeScaling, c.RopeParameters} {
		if given != nil {
			s = *given
		}
	}
	base, partial := c.RopeTheta, 1.0
	if s.RopeTheta != 0 {
		base = s.RopeTheta
	}
	if base == 0 {
		base = 10000
	}
	if c.PartialRotaryFactor != nil {
		partial = *c.PartialRotaryFactor
	}
	dim := int(float64(c.HeadDim) * partial)
	if base <= 0 || dim <= 0 || dim > c.HeadDim || dim%2 != 0 {
		return nil, fmt.Errorf("config.json: rope_theta %g and partial_rotary_factor %g of head_dim %d give no even rotary size", base, partial, c.HeadDim)
	}
	inv := make([]float64, dim/2)
	for i := range inv {
		inv[i] = math.Pow(base, -float64(2*i)/float64(dim))
	}
	kind := s.RopeType
	if kind == "" {
		kind = s.Type
	}
	switch kind {
	case "", "default":
		return &nn.RopeTable{InvFreq: inv, Scale: 1}, nil
	case "linear", "llama3", "yarn":
	default:
		return nil, fmt.Errorf("config.json: rope_scaling: rope_type %q is not supported; supported: default, linear, llama3, yarn", kind)
	}
	if s.Factor < 1 {
		return nil, fmt.Errorf("config.json: rope_scaling: factor is %g, must be at least 1", s.Factor)
	}
	switch kind {
	case "linear":
		for i := range inv {
			inv[i] /= s.Factor
		}
		return &nn.RopeTable{InvFreq: inv, Scale: 1}, nil
	case "llama3":
		return s.llama3(inv)
	}
	return s.yarn(inv, base, c.MaxPositionEmbeddings)
}

// llama3 divides the frequencies of long waves by the factor, keeps those of short
// waves, and goes smoothly from one to the other between.
func (s RopeScaling) llama3(inv []float64) (*nn.RopeTable, error) {
	if s.LowFreqFactor <= 0 || s.HighFreqFactor <= s.LowFreqFactor || s.OriginalMaxPositionEmbeddings <= 0 {
		return nil, fmt.Errorf("config.json: rope_scaling: llama3 needs 0 < low_freq_factor < high_freq_factor and original_max_position_embeddings")
	}
	old := float64(s.OriginalMaxPositionEmbeddings)
	for i, f := range inv {
		wave := 2 * math.Pi / f
		switch {
		case wave > old/s.LowFreqFactor:
			inv[i] = f / s.Factor
		case wave >= old/s.HighFreqFactor:
			smooth := (old/wave - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
			inv[i] = (1-smooth)*f/s.Factor + smooth*f
		}
	}
	return &nn.RopeTable{InvFreq: inv, Scale: 1}, nil
}

// yarn interpolates the low frequencies, keeps the high ones, ramps between, and
// scales cosine and sine.
func (s RopeScaling) yarn(inv []float64, base float64, maxPositions int) (*nn.RopeTable, error) {
	original := s.OriginalMaxPositionEmbeddings
	if original == 0 {
		original = maxPositions
	}
	dim := float64(2 * len(inv))
	// The pair that turns this often within the original context.
	pairOf := func(turns float64) float64 {
		return dim * math.Log(float64(original)/(turns*2*math.Pi)) / (2 * math.Log(base))
	}
	low, high := pairOf(orDefault(s.BetaFast, 32)), pairOf(orDefault(s.BetaSlow, 1))
	if s.Truncate == nil || *s.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, dim-1)
	if low == high {
		high += 0.001
	}
	for i, f := range inv {
		ramp := min(max((float64(i)-low)/(high-low), 0), 1)
		inv[i] = f/s.Factor*ramp + f*(1-ramp)
	}
	return &nn.RopeTable{InvFreq: inv, Scale: s.attentionFactor()}, nil
}

func (s RopeScaling) attentionFactor() float64 {
	mscale := func(by float64) float64 {
		if s.Factor <= 1 {
			return 1
		}
		return 0.1*by*math.Log(s.Factor) + 1
	}
	switch {
	case s.AttentionFactor != nil:
		return *s.AttentionFactor
	case s.MScale != 0 && s.MScaleAllDim != 0:
		return mscale(s.MScale) / mscale(s.MScaleAllDim)
	}
	return mscale(1)
}

func orDefault(v *float64, d float64) float64 {
	if v == nil {
		return d
	}
	return *v
}
