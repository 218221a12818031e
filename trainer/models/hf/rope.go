package hf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"reflect"
	"slices"

	"github.com/seed98097648/tune/trainer/nn"
)

// RopeScaling is the field rope_scaling, or rope_parameters in newer files, which
// also holds the base.
type RopeScaling struct {
	RopeType                      string    `json:"rope_type"`
	Type                          string    `json:"type"` // the older name of rope_type
	RopeTheta                     float64   `json:"rope_theta"`
	Factor                        float64   `json:"factor"`
	OriginalMaxPositionEmbeddings int       `json:"original_max_position_embeddings"`
	LowFreqFactor                 float64   `json:"low_freq_factor"`
	HighFreqFactor                float64   `json:"high_freq_factor"`
	AttentionFactor               *float64  `json:"attention_factor"`
	BetaFast                      float64   `json:"beta_fast"`
	BetaSlow                      float64   `json:"beta_slow"`
	MScale                        float64   `json:"mscale"`
	MScaleAllDim                  float64   `json:"mscale_all_dim"`
	Truncate                      *bool     `json:"truncate"`
	ShortFactor                   []float64 `json:"short_factor"` // of longrope alone, as the next
	LongFactor                    []float64 `json:"long_factor"`
	PartialRotaryFactor           *float64  `json:"partial_rotary_factor"`

	// FullAttention and SlidingAttention are there instead of all others in files whose layers differ: what layers have
	// that layer_types calls so.
	FullAttention    *RopeScaling `json:"full_attention"`
	SlidingAttention *RopeScaling `json:"sliding_attention"`

	unknown error // names a field that is none of these
}

// ropeError says what is wrong with the field rope_scaling, or rope_parameters.
func ropeError(format string, args ...any) error {
	return configError("rope_scaling or rope_parameters: "+format, args...)
}

func (s RopeScaling) byLayer() bool { return s.FullAttention != nil || s.SlidingAttention != nil }

// RopeByLayer takes apart the rope_parameters of a family whose layers with a window have a rotary embedding of their
// own: it returns the configuration that has theirs, and keeps what is of the others. Without rope_parameters, which
// older files have not, rope_scaling is of the others alone.
func (c *Config) RopeByLayer() (windowed Config, err error) {
	windowed = *c
	windowed.RopeTheta, windowed.RopeScaling, windowed.RopeParameters = 0, nil, nil
	p := c.RopeParameters
	if p == nil {
		return windowed, nil
	}
	rest := *p
	rest.FullAttention, rest.SlidingAttention = nil, nil
	if !reflect.DeepEqual(rest, RopeScaling{}) {
		return windowed, configError("rope_parameters: model_type %s has fields of it in full_attention and "+
			"sliding_attention: move all others there, or leave them out", c.ModelType)
	}
	c.RopeParameters, windowed.RopeParameters = p.FullAttention, p.SlidingAttention
	return windowed, nil
}

// UnmarshalJSON implements json.Unmarshaler. It remembers fields that it does not know,
// which are an error once the type is known to be one of ours.
func (s *RopeScaling) UnmarshalJSON(data []byte) error {
	type fields RopeScaling
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	unknown := strict.Decode(new(fields))
	err := json.Unmarshal(data, (*fields)(s))
	s.unknown = unknown
	return err
}

// checkTwice refuses a file that says something twice and differently: which of the two
// counts is another one in transformers 4 and 5.
func (c *Config) checkTwice() error {
	if older, newer := c.RopeScaling, c.RopeParameters; older != nil && newer != nil &&
		!reflect.DeepEqual(c.inFull(*older), c.inFull(*newer)) {
		return configError("rope_scaling and rope_parameters differ: leave out the one that does not count")
	}
	if inner := c.scaling().RopeTheta; inner != 0 && c.RopeTheta != 0 && inner != c.RopeTheta {
		return configError("rope_theta is %g, and %g in rope_parameters or rope_scaling: leave out the one that does not "+
			"count", c.RopeTheta, inner)
	}
	return nil
}

// inFull returns the fields with what stands beside them and with defaults, as transformers 5 writes them, to be
// compared.
func (c *Config) inFull(s RopeScaling) RopeScaling {
	s.RopeType, s.Type = cmp.Or(s.RopeType, s.Type, "default"), ""
	s.RopeTheta = cmp.Or(s.RopeTheta, c.RopeTheta)
	s.PartialRotaryFactor = cmp.Or(s.PartialRotaryFactor, c.PartialRotaryFactor)
	if s.RopeType == "yarn" || s.RopeType == "llama3" || s.ShortFactor != nil {
		s.OriginalMaxPositionEmbeddings = cmp.Or(s.OriginalMaxPositionEmbeddings, c.OriginalMaxPositionEmbeddings,
			c.MaxPositionEmbeddings)
	}
	return s
}

// scaling returns the fields of the rotary embedding, wherever the file has them.
func (c *Config) scaling() RopeScaling {
	switch {
	case c.RopeParameters != nil:
		return *c.RopeParameters
	case c.RopeScaling != nil:
		return *c.RopeScaling
	}
	return RopeScaling{}
}

// RopeType returns the kind of scaling of the rotary embedding, under its newer or its older
// name; empty is none.
func (c *Config) RopeType() string { s := c.scaling(); return cmp.Or(s.RopeType, s.Type) }

// partialRotary returns the part of a head that rotates.
func (c *Config) partialRotary() float64 {
	return orDefault(cmp.Or(c.scaling().PartialRotaryFactor, c.PartialRotaryFactor), 1)
}

// rotaryDim is the only place where the partial factor is applied: the table has half as
// many frequencies, and all else counts those.
func (c *Config) rotaryDim() int { return int(float64(c.HeadDim) * c.partialRotary()) }

// RopeTable computes the inverse frequencies and the scale of cosine and sine.
//
// The formulas are those of transformers' modeling_rope_utils: "default" is Su et al.
// (RoFormer, 2021), "linear" is position interpolation, "llama3" is Meta's smoothed
// interpolation, "yarn" is Peng et al. (YaRN, 2023).
func (c *Config) RopeTable() (*nn.RopeTable, error) {
	table, err := c.ropeTable()
	if err != nil {
		return nil, err
	}
	return table, c.checkAngles(table)
}

func (c *Config) checkAngles(table *nn.RopeTable) error {
	for _, f := range append(table.InvFreq, table.Scale) {
		if !(f > 0 && f <= math.MaxFloat32) {
			return configError("rope_theta %g and rope_scaling give an angle or a scale of %g", c.RopeTheta, f)
		}
	}
	return nil
}

func (c *Config) ropeTable() (*nn.RopeTable, error) {
	if err := c.checkTwice(); err != nil {
		return nil, err
	}
	s, dim := c.scaling(), c.rotaryDim()
	if s.byLayer() {
		return nil, ropeError("full_attention and sliding_attention with fields of their own are not supported by "+
			"model_type %s, whose layers all have one rotary embedding: give its fields in their place", c.ModelType)
	}
	base := cmp.Or(s.RopeTheta, c.RopeTheta, c.DefaultTheta, 10000)
	if base <= 0 || dim <= 0 || dim > c.HeadDim || dim%2 != 0 {
		return nil, configError("rope_theta %g and partial_rotary_factor %g of head_dim %d give no even rotary size", base,
			c.partialRotary(), c.HeadDim)
	}
	inv := make([]float64, dim/2)
	for i := range inv {
		inv[i] = math.Pow(base, -float64(2*i)/float64(dim))
	}
	kind := c.RopeType()
	if !slices.Contains([]string{"", "default", "linear", "llama3", "yarn"}, kind) {
		return nil, ropeError("rope_type %q is not supported; supported: default, linear, llama3, yarn", kind)
	}
	if s.unknown != nil {
		return nil, ropeError("%w, which is not supported", s.unknown)
	}
	if s.ShortFactor != nil || s.LongFactor != nil {
		return nil, ropeError("short_factor and long_factor are not supported by rope_type %q", kind)
	}
	if kind == "" && s.Factor != 0 {
		return nil, ropeError("factor %g without a rope_type; supported: default, linear, llama3, yarn", s.Factor)
	}
	if kind == "yarn" {
		if err := c.factorByLength(&s); err != nil {
			return nil, err
		}
	}
	inner, outer := s.OriginalMaxPositionEmbeddings, c.OriginalMaxPositionEmbeddings
	if (kind == "yarn" || kind == "llama3") && outer != 0 && outer != inner {
		return nil, ropeError("original_max_position_embeddings is %d, and %d beside it: transformers 4 goes by the "+
			"first, and 5 by the second: leave out the one that does not count", inner, outer)
	}
	if kind != "" && kind != "default" && !(s.Factor >= 1) {
		return nil, ropeError("factor is %g, must be at least 1", s.Factor)
	}
	switch kind {
	case "linear":
		for i := range inv {
			inv[i] /= s.Factor
		}
	case "llama3":
		return s.llama3(inv)
	case "yarn":
		return s.yarn(inv, base)
	}
	return &nn.RopeTable{InvFreq: inv, Scale: 1}, nil
}

// llama3 divides the frequencies of long waves by the factor, keeps those of short
// waves, and goes smoothly from one to the other between.
func (s RopeScaling) llama3(inv []float64) (*nn.RopeTable, error) {
	if s.LowFreqFactor <= 0 || s.HighFreqFactor <= s.LowFreqFactor || s.OriginalMaxPositionEmbeddings <= 0 {
		return nil, ropeError("llama3 needs 0 < low_freq_factor < high_freq_factor and original_max_position_embeddings")
	}
	old := float64(s.OriginalMaxPositionEmbeddings)
	for i, f := range inv {
		wave := 2 * math.Pi / f
		switch {
		case wave > old/s.LowFreqFactor:
			inv[i] = f / s.Factor
		case wave >= old/s.HighFreqFactor:
			smooth := (old/wave - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
			inv[i] = (1-smooth)*f/s.Factor + float64(smooth*f)
		}
	}
	return &nn.RopeTable{InvFreq: inv, Scale: 1}, nil
}

// factorByLength completes the lengths before and after stretching and their quotient, any of
// which may be left out. Where a file gives all three and they disagree, transformers 4.55
// goes by the lengths, and later versions and other programs by the factor. What has
// rope_parameters alone is read by those only.
func (c *Config) factorByLength(s *RopeScaling) error {
	original, now := s.OriginalMaxPositionEmbeddings, c.MaxPositionEmbeddings
	if original < 0 {
		return ropeError("original_max_position_embeddings is %d, must be positive", original)
	}
	if original == 0 {
		s.OriginalMaxPositionEmbeddings = now
		return nil
	}
	byLength := float64(now) / float64(original)
	s.Factor = cmp.Or(s.Factor, byLength)
	if older := c.RopeParameters == nil || c.RopeScaling != nil; older && s.Factor != byLength {
		return ropeError("factor %g and max_position_embeddings/original_max_position_embeddings = %d/%d disagree, "+
			"and programs differ in which one they obey: set max_position_embeddings to %g, or factor to %g",
			s.Factor, now, original, s.Factor*float64(original), byLength)
	}
	return nil
}

// yarn interpolates the low frequencies, keeps the high ones, ramps between, and
// scales cosine and sine.
func (s RopeScaling) yarn(inv []float64, base float64) (*nn.RopeTable, error) {
	if base <= 1 {
		return nil, configError("rope_theta %g, must be above 1 for yarn", base)
	}
	dim := float64(2 * len(inv))
	// The pair that turns this often within the original context.
	pairOf := func(turns float64) float64 {
		return dim * math.Log(float64(s.OriginalMaxPositionEmbeddings)/(turns*2*math.Pi)) / (2 * math.Log(base))
	}
	low, high := pairOf(cmp.Or(s.BetaFast, 32)), pairOf(cmp.Or(s.BetaSlow, 1))
	if s.Truncate == nil || *s.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, dim-1)
	if low == high {
		high += 0.001
	}
	for i, f := range inv {
		ramp := min(max((float64(i)-low)/(high-low), 0), 1)
		inv[i] = float64(f/s.Factor*ramp) + float64(f*(1-ramp))
	}
	return &nn.RopeTable{InvFreq: inv, Scale: s.attentionFactor()}, nil
}

func (s RopeScaling) attentionFactor() float64 {
	switch {
	case s.AttentionFactor != nil:
		return *s.AttentionFactor
	case s.MScale != 0 && s.MScaleAllDim != 0:
		return s.mscale(s.MScale) / s.mscale(s.MScaleAllDim)
	}
	return s.mscale(1)
}

// mscale is YaRN's factor for queries and keys, given how much it is to count.
func (s RopeScaling) mscale(by float64) float64 {
	if s.Factor <= 1 {
		return 1
	}
	return float64(0.1*by*math.Log(s.Factor)) + 1
}

// ScoreScale returns what DeepSeek-V3 multiplies queries and keys by besides: mscale_all_dim of rope_scaling says how
// much a longer context counts, 0 not at all.
func (c *Config) ScoreScale() float64 {
	s := c.scaling()
	return s.mscale(s.MScaleAllDim)
}

func orDefault(v *float64, d float64) float64 {
	if v == nil {
		return d
	}
	return *v
}
