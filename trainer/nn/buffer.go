package nn

// Buffer adds a tensor that files keep, in float32, and that training leaves as it is: it
// gets no gradient and no update.
func (b *Builder) Buffer(name string, shape ...int) *Param {
	n := len(b.params)
	p := b.Param(name, shape...)
	if b.err == nil {
		b.params, b.buffers = b.params[:n], append(b.buffers, p)
	}
	p.buffer = true
	return p
}

// Buffers returns the tensors that are not trained, in the order in which they were built.
func (b *Body) Buffers() []*Param { return b.buffers }
