package hf

import (
	"errors"
	"fmt"
	"math"

	"github.com/seed98097648/tune/trainer/nn"
)

// longRopeTable is RopeTable for families that stretch their rotary embedding as Ding et
// al. do (LongRoPE, 2024): every frequency is divided by a factor of its own, one for texts
// of the length that the model had at first, and one for longer texts. Which of them
// counts depends on the longest text of a batch, in transformers; here rows end at the
// first length, where only short_factor does.
func (c *Config) longRopeTable() (*nn.RopeTable, error) {
	switch kind := c.RopeType(); kind {
	case "", "default":
		return c.RopeTable()
	case "longrope", "su", "yarn": // the older names of longrope here
	default:
		return nil, ropeError("rope_type %q is not supported by model_type %s; supported: default, longrope", kind,
			c.ModelType)
	}
	s, original := c.scaling(), c.OriginalMaxPositionEmbeddings
	if s.unknown != nil {
		return nil, ropeError("%w, which is not supported", s.unknown)
	}
	if inner := s.OriginalMaxPositionEmbeddings; original < 2 || inner != 0 && inner != original {
		return nil, configError("original_max_position_embeddings is %d, and %d in rope_scaling: it must be above 1, and "+
			"the same", original, inner)
	}
	s.OriginalMaxPositionEmbeddings = original
	if err := errors.Join(c.checkTwice(), c.factorByLength(&s)); err != nil {
		return nil, err
	}
	plain := *c
	plain.RopeScaling, plain.RopeParameters = nil, &RopeScaling{RopeTheta: s.RopeTheta,
		PartialRotaryFactor: s.PartialRotaryFactor}
	table, err := plain.RopeTable()
	if err != nil {
		return nil, err
	}
	if n := len(table.InvFreq); len(s.ShortFactor) != n || len(s.LongFactor) != n {
		return nil, ropeError("short_factor and long_factor have %d and %d numbers, want %d", len(s.ShortFactor),
			len(s.LongFactor), n)
	}
	for i, by := range s.ShortFactor {
		table.InvFreq[i] /= by
	}
	table.Scale = orDefault(s.AttentionFactor, math.Sqrt(1+max(math.Log(s.Factor), 0)/math.Log(float64(original))))
	if original < c.MaxPositionEmbeddings {
		c.MaxPositionEmbeddings, c.shortRope = original, true
	}
	return table, c.checkAngles(table)
}

// CheckLength refuses rows, called what, of more tokens than the model has positions; or if several texts have equal
// parts of a row, of more than it has for each.
func (c *Config) CheckLength(what string, tokens, texts int) error {
	if tokens/texts <= c.MaxPositionEmbeddings {
		return nil
	}
	field := "max_position_embeddings"
	if c.shortRope {
		field = "original_max_position_embeddings, up to which longrope is supported,"
	}
	most := "that"
	if texts > 1 {
		most = fmt.Sprintf("%d, as %d answers share a row", texts*c.MaxPositionEmbeddings, texts)
	}
	return fmt.Errorf("%s is %d, but the model's %s is %d: choose at most %s", what, tokens, field,
		c.MaxPositionEmbeddings, most)
}
