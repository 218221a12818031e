package trainer

import (
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/nn"
	"github.com/seed98097648/tune/trainer/optim"
)

// What changes for a rank that keeps the optimizer's state of its own share only (ZeRO-1: Rajbhandari et al., "ZeRO:
// Memory Optimizations Toward Training Trillion Parameter Models", 2020): the optimizer sees pieces of parameters.

// shards reports whether that is so.
func (x *ranks) shards() bool { return x != nil && x.how.Shard }

// shardOf returns the rank's own pieces of the parameters, or the parameters.
func (x *ranks) shardOf(params []optim.Param) []optim.Param {
	if !x.shards() {
		return params
	}
	var pieces []optim.Param
	x.reducer.Own(func(tensor, from, to int) {
		p := params[tensor]
		p.Name = fmt.Sprintf("%s[%d:%d]", p.Name, from, to)
		p.Value, p.Grad = p.Value[from:to], p.Grad[from:to]
		pieces = append(pieces, p)
	})
	return pieces
}

// updated returns what of the gradients this rank's optimizer reads.
func (x *ranks) updated(grads [][]float32) [][]float32 {
	if !x.shards() {
		return grads
	}
	var pieces [][]float32
	x.reducer.Own(func(tensor, from, to int) { pieces = append(pieces, grads[tensor][from:to]) })
	return pieces
}

// spread gives all ranks what each has updated.
func (x *ranks) spread(params []*nn.Param) error {
	if !x.shards() {
		return nil
	}
	var values [][]float32
	for _, p := range params {
		values = append(values, p.Tensor.Float32s())
	}
	x.reducer.Bind(values)
	defer x.reducer.Bind(x.grads())
	return x.reducer.Gather()
}

// room is where a moment of parameter i is read into: its place, or for a shard one that keep takes the own pieces of.
func (x *ranks) room(own [][]float32, i int, p *nn.Param) core.Tensor {
	if x.shards() {
		return core.FromFloat32(make([]float32, p.Tensor.Elems()), p.Tensor.Shape...)
	}
	return core.FromFloat32(own[i], p.Tensor.Shape...)
}

func (x *ranks) keep(own [][]float32, i int, read core.Tensor) {
	if !x.shards() {
		return
	}
	next := 0
	x.reducer.Own(func(tensor, from, to int) {
		if tensor == i {
			copy(own[next], read.Float32s()[from:to])
		}
		next++
	})
}
