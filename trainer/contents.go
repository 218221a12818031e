package trainer

// keptBytes is how much a kernel may keep of each byte of a weight: panels for its product in both
// directions, in float32 of one and a half times its size each.
const keptBytes = 3

// nameContents tells kernels what does not change, so that they may keep what they make of it: all that
// is trained, until the next step, and of the weights that are frozen as many as there is room for.
// Of the memory that is free, that of the graph and of the moments, most of which nobody has
// touched yet, comes first, and of the rest half; where nothing tells what is free, all is named.
func (e *Engine) nameContents(free int64) {
	room := (free - int64(e.program.Bytes()) - 3*4*int64(e.model.Elems())) / 2
	for _, p := range e.model.Params() {
		if p.Frozen {
			if room -= keptBytes * int64(len(p.Tensor.Data)); room < 0 && free > 0 {
				continue
			}
		}
		p.Changed()
	}
}
