package models

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/nn"
)

// lost is why a weight that was quantised while it was read cannot be saved.
func lost(name string, dtype core.DType) error {
	option := "lora.Config.BaseInt8"
	if dtype == core.NF4 {
		option = "lora.Config.BaseNF4"
	}
	return fmt.Errorf("%s is %s and cannot be saved: take the model that was not quantised, without %s", name, dtype, option)
}

// save returns an entry that is int8 or NF4 as the tensors of which fill would make it again.
func (b *bitsAndBytes) save(p *nn.Param, e nn.Entry) ([]checkpoint.Named, error) {
	if p.Tensor.DType == core.Int8 {
		return b.saveInt8(p, e), nil
	}
	codes, absmax, values, scale, mean := p.NF4Of(e)
	state, err := json.Marshal(quantState{Type: "nf4", Block: block, Shape: e.Shape, NestedBlock: nestedBlock, Offset: &mean,
		DType: b.dtypes[e.Name], NestedDType: "float32"})
	if err != nil {
		return nil, err
	}
	return []checkpoint.Named{
		rawTensor(e.Name, codes, len(codes), 1),
		rawTensor(e.Name+".absmax", absmax, len(absmax)),
		{Name: e.Name + ".quant_map", Tensor: core.FromFloat32(slices.Clone(core.NF4Values[:]), len(core.NF4Values))},
		{Name: e.Name + ".nested_absmax", Tensor: core.FromFloat32(scale, len(scale))},
		{Name: e.Name + ".nested_quant_map", Tensor: core.FromFloat32(slices.Clone(values), len(values))},
		rawTensor(e.Name+stateSuffix+"nf4", state, len(state)),
	}, nil
}

// saveInt8 is save of int8, of which each row has what 127 stands for.
func (b *bitsAndBytes) saveInt8(p *nn.Param, e nn.Entry) []checkpoint.Named {
	rows := e.Shape[:len(e.Shape)-1].Elems()
	scale := slices.Clone(p.Scale[e.Offset/e.Shape[len(e.Shape)-1]:][:rows])
	for i := range scale {
		scale[i] *= 127
	}
	layer := strings.TrimSuffix(e.Name, "weight")
	return []checkpoint.Named{
		{Name: e.Name, Tensor: e.View(p.Tensor)},
		{Name: layer + scaleSuffix, Tensor: core.FromFloat32(scale, rows)},
		rawTensor(layer+formSuffix, []byte{0}),
	}
}

// rawTensor is a tensor of unsigned bytes.
func rawTensor(name string, b []byte, shape ...int) checkpoint.Named {
	return checkpoint.Named{Name: name, Tensor: core.Tensor{DType: core.Int8, Shape: shape, Data: b}, Unsigned: true}
}
