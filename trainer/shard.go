package trainer

import (
	"fmt"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/nn"
	"github.com/seed98097648/tune/trainer/optim"
)

// What changes for a rank that keeps the optimizer's state of its own share only (ZeRO-1: Rajbhandari et al., "ZeRO:
// Memory Optimizations Toward Training Trillion Parameter Models", 2020): the optimizer sees pieces of parameters.

// shard is such a piece: elements of a parameter, which lie in one of its tensors.
type shard struct {
	param, from, to int
	entry           nn.Entry
}

// shards reports whether that is so.
func (x *ranks) shards() bool { return x != nil && x.how.Shard }

// shardOf returns the rank's own pieces of the parameters, which are those that forecast.Params says, or all of them.
func (e *Engine) shardOf(params []optim.Param) []optim.Param {
	if !e.ranks.shards() {
		return params
	}
	trained := e.model.Trainable()
	first := make([]int, len(trained)) // of the params of each parameter
	for i, n := 0, 0; i < len(trained); i++ {
		first[i], n = n, n+len(trained[i].Entries)
	}
	var pieces []optim.Param
	e.ranks.reducer.Own(func(param, from, to int) {
		for k, entry := range trained[param].Entries {
			at := entry.Offset
			lo, hi := max(from, at), min(to, at+entry.Shape.Elems())
			if lo >= hi {
				continue
			}
			p := params[first[param]+k]
			p.Name, p.Shape = fmt.Sprintf("%s[%d:%d]", p.Name, lo-at, hi-at), nil
			p.Value, p.Grad = p.Value[lo-at:hi-at], p.Grad[lo-at:hi-at]
			pieces, e.shard = append(pieces, p), append(e.shard, shard{param, lo, hi, entry})
		}
	})
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

// remembered returns what the optimizer has of each piece, by the name of what it is.
func (e *Engine) remembered() (names []string, pieces map[string][][]float32, err error) {
	pieces = map[string][][]float32{}
	err = e.opt.Each(func(name string, t core.Tensor) error {
		kind, _, _ := strings.Cut(name, ".")
		if pieces[kind] == nil {
			names = append(names, kind)
		}
		pieces[kind] = append(pieces[kind], t.Float32s())
		return nil
	})
	return names, pieces, err
}

// optimizerState returns what the optimizers of all ranks remember, or nothing to a rank that has no use for it. All
// ranks call it.
func (e *Engine) optimizerState() (all []checkpoint.Named, err error) {
	if !e.ranks.shards() {
		err = e.opt.Each(func(name string, t core.Tensor) error {
			all = append(all, checkpoint.Named{Name: name, Tensor: t})
			return nil
		})
		return all, err
	}
	names, pieces, err := e.remembered()
	if err != nil {
		return nil, err
	}
	for _, kind := range names {
		var whole [][]float32
		for _, p := range e.model.Trainable() {
			if e.cfg.World.Rank() > 0 {
				break
			}
			t := core.FromFloat32(make([]float32, p.Tensor.Elems()), p.Tensor.Shape...)
			whole = append(whole, t.Float32s())
			for _, entry := range p.Entries {
				all = append(all, checkpoint.Named{Name: kind + "." + entry.Name, Tensor: entry.View(t)})
			}
		}
		if err := e.ranks.reducer.Collect(pieces[kind], whole); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readState takes over what optimizers have remembered, or this rank's share of it.
func (e *Engine) readState(from source) error {
	if !e.ranks.shards() {
		return e.opt.Each(func(name string, t core.Tensor) error { return read(from, name, t) })
	}
	names, pieces, err := e.remembered()
	for _, kind := range names {
		var last string // pieces of one tensor follow each other
		var whole core.Tensor
		for i, s := range e.shard {
			if name := kind + "." + s.entry.Name; name != last {
				last, whole = name, core.NewTensor(core.Float32, s.entry.Shape...)
				if err := read(from, name, whole); err != nil {
					return err
				}
			}
			copy(pieces[kind][i], whole.Float32s()[s.from-s.entry.Offset:s.to-s.entry.Offset])
		}
	}
	return err
}
