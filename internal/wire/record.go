package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/seed98097648/tune/core"
)

// A call record is what a call looks like between two processes of one machine. All
// numbers are little-endian.
//
//	offset  size  header
//	0       4     handle, from Bind
//	4       4     number of inputs
//	8       4     number of outputs
//	12      4     length of the site
//	16      112   the site, cut if longer
//
//	then, for every input and every output, 64 bytes (one cache line):
//	0       4     region, 0 for a tensor without elements
//	4       1     dtype, a core.DType
//	5       1     number of axes
//	6       1     1 for an output that is to be added to, 0 otherwise
//	8       8     offset in the region, in bytes
//	16      40    sizes of up to five axes
//	56      8     of an input, what names its content, or 0; see core.Tensor and EnvKeep
const (
	HeaderSize = 128
	MaxSite    = HeaderSize - 16
	EntrySize  = 64
	MaxRank    = 5
)

// MaxTensors bounds the number of tensors of a call.
const MaxTensors = (MaxRecord - HeaderSize) / EntrySize

// Order is the order of the bytes of every number.
var Order = binary.LittleEndian

// Header is the head of a call record.
type Header struct {
	Handle          uint32
	Inputs, Outputs int
	Site            []byte // a view of the record
}

// PutHeader writes the head of a record of c.
func PutHeader(rec []byte, handle uint32, c *core.Call) {
	Order.PutUint32(rec[0:], handle)
	Order.PutUint32(rec[4:], uint32(len(c.In)))
	Order.PutUint32(rec[8:], uint32(len(c.Out)))
	Order.PutUint32(rec[12:], uint32(copy(rec[16:HeaderSize], c.Site)))
}

// ReadHeader is the inverse of PutHeader. It trusts nothing.
func ReadHeader(rec []byte) (Header, error) {
	if len(rec) < HeaderSize {
		return Header{}, fmt.Errorf("%w: record of %d bytes has no header", core.ErrBadCall, len(rec))
	}
	in, out, site := Order.Uint32(rec[4:]), Order.Uint32(rec[8:]), Order.Uint32(rec[12:])
	if in > MaxTensors || out > MaxTensors || in+out > MaxTensors || site > MaxSite {
		return Header{}, fmt.Errorf("%w: record with %d inputs, %d outputs and %d bytes of site",
			core.ErrBadCall, in, out, site)
	}
	h := Header{Handle: Order.Uint32(rec), Inputs: int(in), Outputs: int(out), Site: rec[16 : 16+site]}
	if len(rec) < RecordSize(h.Inputs+h.Outputs) {
		return Header{}, fmt.Errorf("%w: record of %d bytes names %d tensors", core.ErrBadCall, len(rec), in+out)
	}
	return h, nil
}

// SizeOf is the size of the record that begins a series. It trusts nothing.
func SizeOf(series []byte) (int, error) {
	h, err := ReadHeader(series)
	return RecordSize(h.Inputs + h.Outputs), err
}

// RecordSize is the size of a record of so many tensors.
func RecordSize(tensors int) int { return HeaderSize + tensors*EntrySize }

// EntryOf returns the place of tensor i in a record, inputs first.
func EntryOf(rec []byte, i int) []byte {
	at := HeaderSize + i*EntrySize
	return rec[at : at+EntrySize : at+EntrySize]
}

// PutEntry writes where a tensor lies and what it is.
func PutEntry(e []byte, region uint32, offset int64, t core.Tensor) {
	Order.PutUint32(e[0:], region)
	e[4], e[5], e[6] = byte(t.DType), byte(len(t.Shape)), 0
	Order.PutUint64(e[8:], uint64(offset))
	for i, d := range t.Shape {
		Order.PutUint64(e[16+8*i:], uint64(d))
	}
	Order.PutUint64(e[56:], t.Content)
}

// ContentOf returns what names the content of an entry's tensor.
func ContentOf(e []byte) uint64 { return Order.Uint64(e[56:]) }

// Entry is where a tensor lies and what it is.
type Entry struct {
	Region        uint32
	Offset, Bytes uint64
	DType         core.DType
	Shape         core.Shape
}

// ReadEntry is the inverse of PutEntry; it appends the axes to shape. The byte count
// it returns does not overflow.
func ReadEntry(e []byte, shape core.Shape) (Entry, error) {
	t := Entry{Region: Order.Uint32(e), Offset: Order.Uint64(e[8:]), DType: core.DType(e[4]), Shape: shape}
	rank := int(e[5])
	t.Bytes = uint64(t.DType.Size())
	if t.Bytes == 0 || rank > MaxRank {
		return Entry{}, fmt.Errorf("%w: tensor of dtype %d with %d axes", core.ErrBadCall, e[4], rank)
	}
	for i := range rank {
		d := Order.Uint64(e[16+8*i:])
		t.Shape = append(t.Shape, int(d))
		if d > maxBytes || (d != 0 && t.Bytes > maxBytes/d) {
			return Entry{}, fmt.Errorf("%w: tensor of shape %v is too large", core.ErrBadCall, t.Shape)
		}
		t.Bytes *= d
	}
	if t.DType == core.NF4 {
		t.Bytes = (t.Bytes + 1) / 2
	}
	return t, nil
}

// PutAdds says that the call adds to the output of an entry that was put.
func PutAdds(e []byte) { e[6] = 1 }

// Adds reports whether the call adds to the output of an entry.
func Adds(e []byte) bool { return e[6] == 1 }

// maxBytes bounds the size of a tensor and of a region, so that sums do not overflow.
const maxBytes = 1 << 62
