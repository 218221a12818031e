package gguf

import (
	"cmp"
	"errors"
	"strings"

	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

func anyExperts(nn.MoEConfig) error { return nil }

// groups refuses a model that may choose an expert outside the best groups: transformers counts the scores of those as
// 0, which is more than a corrected score within that is negative, and llama.cpp as less than any.
func groups(m *models.Model, files source) error {
	_, e := dense(m)
	if e.Router.Groups <= e.Router.TopGroups {
		return nil
	}
	var room checkpoint.Room
	for _, p := range m.Buffers() {
		name := p.Entries[0].Name
		if !strings.HasSuffix(name, ".e_score_correction_bias") {
			continue
		}
		if err := readable(files, name, p.Entries[0].Shape); err != nil {
			return err
		}
		v, err := files.TensorIn(&room, name)
		if err != nil {
			return err
		}
		for i := range v.Elems() {
			var bias [1]float32
			if v.Load(bias[:], i); bias[0] < 0 {
				return unsaid("n_group is %d, and %s has %g: llama.cpp never chooses an expert outside the best groups, and "+
					"transformers does where the corrected scores within are negative", e.Router.Groups, name, bias[0])
			}
		}
	}
	return nil
}

// groupsOf is groups with the model's folder.
func groupsOf(dir string, m *models.Model) error {
	set, err := checkpoint.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(groups(m, set), set.Close())
}

// dense returns the number of layers before the first with experts, and the experts of that.
func dense(m *models.Model) (int, nn.MoEConfig) {
	for i := range m.Decoder.Config().Layers {
		if e, sparse := m.Experts(i); sparse {
			return i, e
		}
	}
	return m.Decoder.Config().Layers, nn.MoEConfig{}
}

func glmKeys(set func(key string, value any), m *models.Model) {
	first, e := dense(m)
	const sigmoid = 2
	set("leading_dense_block_count", uint32(first))
	if e.Intermediate > 0 {
		set("expert_shared_count", uint32(e.Shared/e.Intermediate))
	}
	set("expert_gating_func", uint32(sigmoid))
	set("expert_weights_scale", float32(cmp.Or(e.Router.Scale, 1)))
	set("expert_weights_norm", e.Router.Normalize)
	if chosen := e.Router.TopGroups; chosen < e.Router.Groups { // llama.cpp ends where all groups are chosen
		set("expert_group_count", uint32(e.Router.Groups))
		set("expert_group_used_count", uint32(chosen))
	}
}

// ernieMoECheck wants experts in every layer from the first that has them.
func ernieMoECheck(m *models.Model) error {
	first, _ := dense(m)
	for i := range m.Decoder.Config().Layers {
		if _, sparse := m.Experts(i); sparse != (i >= first) {
			return unsaid("moe_layer_interval or moe_layer_end_index: in llama.cpp's ernie4_5-moe every layer from the first "+
				"with experts has them; layer %d has none", i)
		}
	}
	return nil
}

func ernieMoEKeys(set func(key string, value any), m *models.Model) {
	first, e := dense(m)
	set("leading_dense_block_count", uint32(first))
	set("interleave_moe_layer_step", uint32(1))
	if e.Shared > 0 {
		set("expert_shared_feed_forward_length", uint32(e.Shared))
	}
}
