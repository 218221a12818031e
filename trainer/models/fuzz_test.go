package models_test

import (
	"errors"
	"testing"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/models"
)

// small is memory for a model of the tests, and not for many.
type small struct{ bytes, params int }

func (s *small) Alloc(n int) ([]byte, error) {
	s.bytes, s.params = s.bytes+n, s.params+1
	if s.bytes > 1<<18 || s.params > 200 {
		return nil, errors.New("too large")
	}
	return autograd.Heap{}.Alloc(n)
}

func (*small) Free([]byte) {}

// FuzzConfig builds models of any configuration: it is refused, or every site has facts
// that are in order.
func FuzzConfig(f *testing.F) {
	for _, name := range types() {
		f.Add(family(name))
		f.Add(family(name, with("rope_scaling", map[string]any{"rope_type": "yarn", "factor": 4})))
		f.Add(family(name, with("layer_types", []string{"full_attention", "sliding_attention"})))
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		m, err := models.New(config, &small{})
		if err != nil {
			return
		}
		for _, s := range m.Sites() {
			if err := s.Facts.Validate(s.Op); err != nil {
				t.Errorf("%s: %v", s.Path, err)
			}
		}
	})
}
