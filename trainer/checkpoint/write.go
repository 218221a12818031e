package checkpoint

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/seed98097648/tune/core"
)

// Named is a tensor and the name that it has in a checkpoint.
type Named struct {
	Name     string
	Tensor   core.Tensor
	As       core.DType // of a float32 tensor in the file, where that is another: it is narrowed while it is written
	Unsigned bool       // the tensor's int8 are bytes that stand for something else (U8); see File.Bytes
}

// DType returns that of the tensor in the file.
func (n Named) DType() core.DType { return cmp.Or(n.As, n.Tensor.DType) }

// Bytes returns what the tensor takes in the file.
func (n Named) Bytes() int {
	if n.As == core.InvalidDType {
		return len(n.Tensor.Data)
	}
	return n.Tensor.Elems() * n.As.Size()
}

// Overflows reports whether As cannot hold one of the elements, which are finite.
func (n Named) Overflows() bool {
	return n.parts(func(part core.Tensor) error {
		if _, infinite := NonFinite(part); infinite {
			return errOverflow
		}
		return nil
	}) != nil
}

var errOverflow = errors.New("overflow")

// parts calls f with what is written, part by part: of a tensor that is narrowed there is never a copy as a whole.
func (n Named) parts(f func(part core.Tensor) error) error {
	if n.As == core.InvalidDType {
		return f(n.Tensor)
	}
	all := n.Tensor.Float32s()
	part := core.NewTensor(n.As, min(len(all), 1<<14)) // little, as each call leaves it to the garbage
	for len(all) > 0 {
		count := min(len(all), part.Elems())
		part.Shape[0], part.Data = count, part.Data[:count*n.As.Size()]
		part.Store(all[:count], 0)
		if err := f(part); err != nil {
			return err
		}
		all = all[count:]
	}
	return nil
}

// Write writes a safetensors file, atomically: whatever goes wrong before the new
// file is complete and on disk, path keeps its old content and no other file is left
// behind. The tensors are stored in the order of their element size, largest first,
// then of their name, so that each is aligned in the file. Metadata gets
// "format": "pt" unless it has a format; transformers refuses files without one.
func Write(path string, tensors []Named, metadata map[string]string) error {
	if _, err := write(path, tensors, metadata); err != nil {
		return fmt.Errorf("checkpoint: cannot write %s: %w", path, err)
	}
	return nil
}

// write returns the checksum of the file.
func write(path string, tensors []Named, metadata map[string]string) (sum [sha256.Size]byte, err error) {
	if !littleEndian() {
		return sum, errBigEndian
	}
	tensors = slices.SortedFunc(slices.Values(tensors), func(a, b Named) int {
		return cmp.Or(cmp.Compare(b.DType().Size(), a.DType().Size()), cmp.Compare(a.Name, b.Name))
	})
	if err := checkNamed(tensors); err != nil {
		return sum, err
	}
	head, err := encodeHeader(tensors, metadata)
	if err != nil {
		return sum, err
	}
	// What is written does not change meanwhile, and most of the time goes to the disk.
	var wg sync.WaitGroup
	wg.Go(func() {
		h := sha256.New()
		writeTo(h, head, tensors) // never fails
		h.Sum(sum[:0])
	})
	err = replaceFile(path, 0o644, func(w io.Writer) error { return writeTo(w, head, tensors) })
	wg.Wait()
	return sum, err
}

// writeTo writes the file: header length, header, data.
func writeTo(w io.Writer, head []byte, tensors []Named) error {
	if err := binary.Write(w, binary.LittleEndian, uint64(len(head))); err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, t := range tensors {
		err := t.parts(func(part core.Tensor) error {
			_, err := w.Write(part.Data)
			return err
		})
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// checkNamed refuses what Open would refuse in the file.
func checkNamed(tensors []Named) error {
	seen := map[string]bool{}
	for _, t := range tensors {
		switch {
		case t.Name == "" || t.Name == metadataKey || !utf8.ValidString(t.Name):
			return fmt.Errorf("%q cannot be the name of a tensor", t.Name)
		case seen[t.Name]:
			return fmt.Errorf("two tensors are called %q", t.Name)
		}
		seen[t.Name] = true
		_, err := byteSize(t.DType().Size(), t.Tensor.Shape)
		if err := cmp.Or(err, t.Tensor.Valid()); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// encodeHeader returns the JSON header for tensors that lie one after the other,
// padded with spaces to a multiple of 8 bytes to keep the data aligned.
func encodeHeader(tensors []Named, metadata map[string]string) ([]byte, error) {
	meta, err := withFormat(metadata)
	if err != nil {
		return nil, err
	}
	names := map[core.DType]string{}
	for name, d := range dtypes() {
		names[d] = name
	}
	head := append([]byte(`{"`+metadataKey+`":`), marshal(meta)...)
	begin := 0
	for _, t := range tensors {
		dtype := names[t.DType()]
		if t.Unsigned {
			dtype = byteName
		}
		end := begin + t.Bytes()
		head = append(append(append(head, ','), marshal(t.Name)...), ':')
		head = append(head, marshal(struct {
			DType   string `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}{dtype, append([]int{}, t.Tensor.Shape...), [2]int{begin, end}})...)
		begin = end
	}
	head = append(head, '}')
	head = append(head, bytes.Repeat([]byte{' '}, -len(head)&7)...)
	if len(head) > maxHeaderBytes {
		return nil, fmt.Errorf("the header would have %d bytes, more than the format's limit of %d", len(head),
			maxHeaderBytes)
	}
	return head, nil
}

func withFormat(metadata map[string]string) (map[string]string, error) {
	meta := map[string]string{"format": "pt"}
	for k, v := range metadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, errors.New("metadata is not valid UTF-8")
		}
	}
	maps.Copy(meta, metadata)
	return meta, nil
}

// marshal is json.Marshal for strings, numbers and maps of them, which cannot fail,
// and without its HTML escapes.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
