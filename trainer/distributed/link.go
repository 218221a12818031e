package distributed

// link is what joins the ranks of a job. All calls are one thread's, and all ranks split in the same order.
type link interface {
	// split returns the comm of the ranks that give the same colour, in the order of their keys.
	split(colour, key int) (comm, error)
	leave() error  // the job, which is over for all ranks
	kill(code int) // ends all ranks
}

// comm is a set of ranks that do collectives with one another, all in the same order.
type comm interface {
	// alltoall starts to send each rank its part of send, and to gather in recv what they send to this one.
	alltoall(send []byte, sends *parts, recv []byte, recvs *parts) (pending, error)
	// allgather starts to gather what all ranks send.
	allgather(send, recv []byte, recvs *parts) (pending, error)
}

// pending is a collective that was started. Its buffers are its own until it is finished.
type pending interface{ finished() (bool, error) }

// parts are the pieces of a buffer that belong to the ranks of a comm, in bytes.
type parts struct{ counts, offsets []int32 }

func newParts(counts []int) *parts {
	p := &parts{}
	at := 0
	for _, n := range counts {
		p.counts, p.offsets = append(p.counts, int32(n)), append(p.offsets, int32(at))
		at += n
	}
	return p
}

// of returns the piece of a rank.
func (p *parts) of(b []byte, rank int) []byte {
	from := p.offsets[rank]
	return b[from : from+p.counts[rank]]
}
