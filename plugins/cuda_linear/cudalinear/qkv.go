package cudalinear

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/plugins/cuda_linear/cuda"
)

// qkv is the kernel of the op qkv: three layers of one x, which is copied to the device once.
type qkv struct{ kernel }

func newQKV(d *cuda.Device) core.Kernel {
	return &qkv{newKernel(d, core.QKV, "the linear layers before attention, of one x",
		"dq_weight", "dk_weight", "dv_weight")}
}

// names are those of the three.
var names = []string{"q", "k", "v"}

// layers are the three of a call.
func (*qkv) layers(p pass) []layer {
	var parts []part
	for _, name := range names {
		parts = append(parts, partOf(p.Call, name+"_weight", nil))
	}
	return p.layers(parts...)
}

// Forward computes q, k and v.
func (k *qkv) Forward(_ context.Context, c *core.Call) error {
	return k.run(c, func(p pass) {
		x, all := p.load("x"), k.layers(p)
		for i := range all {
			all[i].y = p.New(p.T, all[i].rows)
		}
		p.forward(x, all)
		for i, name := range names {
			p.storeWith(all[i].y, p.T, name, p.bias(name+"_bias"))
		}
	})
}

// Backward computes the gradients.
func (k *qkv) Backward(_ context.Context, c *core.Call) error {
	return k.run(c, func(p pass) {
		x, all := p.xOfBackward(false), k.layers(p)
		for i, name := range names {
			all[i].y = p.load("d" + name)
		}
		p.store(p.backward(x, all), p.T, "dx")
		if c.Facts.Bias && !c.Facts.Frozen {
			for _, name := range names {
				vector.SumRows(c.Output("d"+name+"_bias").Float32s(), c.Input("d"+name))
			}
		}
	})
}
