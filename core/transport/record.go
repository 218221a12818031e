package transport

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
//	8       8     offset in the region, in bytes
//	16      48    sizes of up to six axes
const (
	headerSize = 128
	maxSite    = headerSize - 16
	entrySize  = 64
	maxRank    = 6
)

// The control memory of a doorbell. Words that one side writes while the other waits
// on them have a cache line each.
//
//	offset  size  word
//	0       4     number of the latest request, written by the host
//	4       4     what the request is, a requestKind; written before the number
//	8       4     length of the request's text, 0 for a call
//	64      4     number of the latest reply, written by the plugin
//	128     4     1 while the plugin sleeps on the request
//	192     4     1 while the host sleeps on the reply
//	256     4     status of the reply, a proto.Status
//	260     4     length of the reply's text
//	264     8     nanoseconds that the kernel ran
//	272     3824  the text, cut if longer
//	4096    ...   the call record, or the request's text
const (
	offRequest      = 0
	offKind         = 4
	offAskLength    = 8
	offReply        = 64
	offPluginAsleep = 128
	offHostAsleep   = 192
	offStatus       = 256
	offTextLength   = 260
	offBusy         = 264
	offText         = 272
	offRecord       = 4096
	controlSize     = 1 << 20
)

// The kinds of requests. A plugin that speaks gRPC describes itself there, and gets its facts
// in one line, facts=JSON.
const (
	requestCall     uint32 = iota // the record of a call
	requestDescribe               // no text; answered with who the plugin is
	requestSupports               // kernel=NUMBER and the facts, in lines
	requestBind                   // kernel=NUMBER, pass=NAME and the facts; answered with handle=NUMBER
)

// maxRecord bounds a call record, and with it the number of tensors of a call.
const (
	maxRecord  = controlSize - offRecord
	maxTensors = (maxRecord - headerSize) / entrySize
)

var order = binary.LittleEndian

// header is the head of a call record.
type header struct {
	handle      uint32
	inputs      int
	outputs     int
	site        []byte // a view of the record
	recordBytes int
}

// putHeader writes the head of a record of c.
func putHeader(rec []byte, handle uint32, c *core.Call) {
	order.PutUint32(rec[0:], handle)
	order.PutUint32(rec[4:], uint32(len(c.In)))
	order.PutUint32(rec[8:], uint32(len(c.Out)))
	order.PutUint32(rec[12:], uint32(copy(rec[16:headerSize], c.Site)))
}

// readHeader is the inverse of putHeader. It trusts nothing.
func readHeader(rec []byte) (header, error) {
	if len(rec) < headerSize {
		return header{}, fmt.Errorf("%w: record of %d bytes has no header", core.ErrBadCall, len(rec))
	}
	in, out, site := order.Uint32(rec[4:]), order.Uint32(rec[8:]), order.Uint32(rec[12:])
	if in > maxTensors || out > maxTensors || in+out > maxTensors || site > maxSite {
		return header{}, fmt.Errorf("%w: record with %d inputs, %d outputs and %d bytes of site", core.ErrBadCall, in, out, site)
	}
	h := header{handle: order.Uint32(rec), inputs: int(in), outputs: int(out), site: rec[16 : 16+site]}
	h.recordBytes = headerSize + (h.inputs+h.outputs)*entrySize
	if len(rec) < h.recordBytes {
		return header{}, fmt.Errorf("%w: record of %d bytes names %d tensors", core.ErrBadCall, len(rec), in+out)
	}
	return h, nil
}

// entry returns the place of tensor i in a record, inputs first.
func entry(rec []byte, i int) []byte {
	at := headerSize + i*entrySize
	return rec[at : at+entrySize : at+entrySize]
}

// putEntry writes where a tensor lies and what it is.
func putEntry(e []byte, region uint32, offset int64, t core.Tensor) {
	order.PutUint32(e[0:], region)
	e[4], e[5] = byte(t.DType), byte(len(t.Shape))
	order.PutUint64(e[8:], uint64(offset))
	for i, d := range t.Shape {
		order.PutUint64(e[16+8*i:], uint64(d))
	}
}

// readEntry is the inverse of putEntry; it appends the axes to shape. The byte count
// it returns does not overflow.
func readEntry(e []byte, shape core.Shape) (region uint32, offset, bytes uint64, dtype core.DType, axes core.Shape, err error) {
	region, dtype, offset = order.Uint32(e), core.DType(e[4]), order.Uint64(e[8:])
	rank := int(e[5])
	if dtype.Size() == 0 || rank > maxRank {
		return 0, 0, 0, 0, nil, fmt.Errorf("%w: tensor of dtype %d with %d axes", core.ErrBadCall, e[4], rank)
	}
	bytes = uint64(dtype.Size())
	for i := range rank {
		d := order.Uint64(e[16+8*i:])
		shape = append(shape, int(d))
		if d > maxBytes || (d != 0 && bytes > maxBytes/d) {
			return 0, 0, 0, 0, nil, fmt.Errorf("%w: tensor of shape %v is too large", core.ErrBadCall, shape)
		}
		bytes *= d
	}
	return region, offset, bytes, dtype, shape, nil
}

// maxBytes bounds the size of a tensor and of a region, so that sums do not overflow.
const maxBytes = 1 << 62
