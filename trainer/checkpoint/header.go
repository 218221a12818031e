package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed98097648/tune/core"
)

const metadataKey = "__metadata__"

// header is the checked content of a file's header.
type header struct {
	entries  map[string]entry
	metadata map[string]string
}

// entry is one tensor: bytes [begin, end) of the data that follows the header.
type entry struct {
	dtypeName  string
	dtype      core.DType // InvalidDType if we have none for dtypeName, which is then byteName
	shape      core.Shape
	begin, end int
}

// byteName is the dtype of bytes that no tensor of ours holds; see File.Bytes.
const byteName = "U8"

// dtypes maps the format's names to ours. Other names (F8_E4M3, ...) are refused.
func dtypes() map[string]core.DType {
	return map[string]core.DType{
		"F32": core.Float32, "BF16": core.BFloat16, "F16": core.Float16,
		"F64": core.Float64, "I32": core.Int32, "I64": core.Int64, "I8": core.Int8,
	}
}

// parseHeader reads a header that describes size bytes of data. It accepts a header
// only if its tensors cover the data exactly once, without a hole.
func parseHeader(raw []byte, size int) (header, error) {
	h := header{entries: map[string]entry{}, metadata: map[string]string{}}
	if !utf8.Valid(raw) {
		return h, errors.New("header is not valid UTF-8")
	}
	if len(raw) == 0 || raw[0] != '{' { // the format allows no space before it
		return h, errors.New("header is not a JSON object; is this a safetensors file?")
	}
	if err := h.decode(newDecoder(raw)); err != nil {
		return h, fmt.Errorf("header: %w", err)
	}
	if err := h.checkDTypes(); err != nil {
		return h, err
	}
	return h, h.checkLayout(size)
}

func (h *header) decode(dec *json.Decoder) error {
	known := dtypes()
	err := eachField(dec, func(name string) error {
		if name == metadataKey {
			return eachString(dec, func(k, v string) error {
				h.metadata[k] = v
				return nil
			})
		}
		e, err := decodeEntry(dec)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		e.dtype = known[e.dtypeName]
		h.entries[name] = e
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("bytes other than spaces after the JSON object")
	}
	return nil
}

func decodeEntry(dec *json.Decoder) (e entry, err error) {
	var offsets []int
	err = eachField(dec, func(field string) (err error) {
		switch field {
		case "dtype":
			e.dtypeName, err = next[string](dec)
		case "shape":
			e.shape, err = ints(dec)
		case "data_offsets":
			offsets, err = ints(dec)
		default:
			err = errors.New("unknown field")
		}
		if err != nil {
			return fmt.Errorf("field %q: %w", field, err)
		}
		return nil
	})
	switch {
	case err != nil:
		return e, err
	case e.dtypeName == "" || e.shape == nil:
		return e, errors.New("no dtype or no shape")
	case len(offsets) != 2:
		return e, fmt.Errorf("data_offsets must be two numbers, got %d", len(offsets))
	}
	e.begin, e.end = offsets[0], offsets[1]
	return e, nil
}

// checkDTypes refuses element types that core.Tensor cannot hold.
func (h *header) checkDTypes() error {
	var bad []string
	for _, name := range slices.Sorted(maps.Keys(h.entries)) {
		if e := h.entries[name]; e.dtype == core.InvalidDType && e.dtypeName != byteName {
			bad = append(bad, fmt.Sprintf("%q (%s)", name, e.dtypeName))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("unsupported dtype of %d tensors, such as %s; supported: %s; convert the model to one of these",
		len(bad), strings.Join(bad[:min(len(bad), 8)], ", "), strings.Join(slices.Sorted(maps.Keys(dtypes())), ", "))
}

// checkLayout walks the tensors in the order of their bytes.
func (h *header) checkLayout(size int) error {
	names := slices.SortedFunc(maps.Keys(h.entries), func(a, b string) int {
		x, y := h.entries[a], h.entries[b]
		return cmp.Or(cmp.Compare(x.begin, y.begin), cmp.Compare(x.end, y.end), cmp.Compare(a, b))
	})
	covered := 0
	for _, name := range names {
		e := h.entries[name]
		if err := e.check(size); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		if e.begin < covered {
			return fmt.Errorf("tensor %q: its data starts at %d and overlaps another tensor, which ends at %d", name, e.begin,
				covered)
		}
		if e.begin > covered {
			return fmt.Errorf("tensor %q: %d bytes before its data belong to no tensor", name, e.begin-covered)
		}
		covered = e.end
	}
	if covered != size {
		return fmt.Errorf("%d bytes at the end of the file belong to no tensor", size-covered)
	}
	return nil
}

// check compares the entry's offsets with the size of the data and with its shape.
func (e entry) check(size int) error {
	if e.begin < 0 || e.begin > e.end || e.end > size {
		return fmt.Errorf("data_offsets [%d, %d] lie outside the file's %d bytes of data; download or save it again",
			e.begin, e.end, size)
	}
	each := e.dtype.Size()
	if e.dtypeName == byteName {
		each = 1
	}
	need, err := byteSize(each, e.shape)
	if err != nil {
		return err
	}
	if need != e.end-e.begin {
		return fmt.Errorf("%s%v needs %d bytes, its data_offsets span %d", e.dtypeName, e.shape, need, e.end-e.begin)
	}
	return nil
}

// byteSize returns the bytes of a tensor; core.Shape.Elems would wrap around on a
// hostile shape.
func byteSize(each int, s core.Shape) (int, error) {
	n := uint64(each)
	for _, axis := range s {
		if axis < 0 {
			return 0, fmt.Errorf("shape %v has a negative axis", s)
		}
		var high uint64
		if high, n = bits.Mul64(n, uint64(axis)); high != 0 || n > math.MaxInt {
			return 0, fmt.Errorf("shape %v is too large", s)
		}
	}
	return int(n), nil
}
