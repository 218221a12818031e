package nn

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// TestANormIsFrozenWhereItsWeightIs: where only a part of a model is trained, some norms are, and a kernel has to give the
// gradients of their weights.
func TestANormIsFrozenWhereItsWeightIs(t *testing.T) {
	b := NewBuilder(autograd.Heap{})
	b.Freeze(func(p *Param) core.DType {
		if strings.HasPrefix(p.Name, "frozen") {
			return core.Float32
		}
		return core.InvalidDType
	})
	for _, path := range []string{"frozen", "trained"} {
		newNorm(b, path, path, normKind{4, 1e-5, 0}, true)
	}
	body := b.Body()
	sites := body.Sites()
	if len(sites) != 4 {
		t.Fatalf("%d sites, want 4", len(sites))
	}
	for _, s := range sites {
		if want := strings.HasPrefix(s.Path, "frozen"); s.Facts.Frozen != want {
			t.Errorf("%s has the fact frozen: %v, want %v", s.Path, s.Facts.Frozen, want)
		}
	}
}
