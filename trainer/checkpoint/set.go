package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/plainjson"
)

// The file names that Hugging Face model folders use.
const (
	SingleFile = "model.safetensors"
	IndexFile  = "model.safetensors.index.json"
)

// Set is the weights of one model: a single file, or the shards that an index lists.
// Its methods may be called from several goroutines at once, except Close.
type Set struct {
	files []*File          // in the order of their names
	where map[string]*File // tensor name -> its file
}

// OpenDir opens the weights in a model folder: SingleFile if it is there, else the
// shards of IndexFile. Every tensor that the index names must be in the shard that it
// names; a tensor that only a shard knows is part of the model as well. A tensor in
// two shards is an error. Experts that a layer has in one tensor are one each in the Set, see separateExperts.
// The caller closes it.
func OpenDir(dir string) (*Set, error) {
	s, err := openDir(dir)
	if err == nil {
		s.separateExperts()
	}
	return s, err
}

func openDir(dir string) (*Set, error) {
	single := filepath.Join(dir, SingleFile)
	if _, err := os.Stat(single); err == nil {
		return openAll([]string{single})
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	path := filepath.Join(dir, IndexFile)
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("checkpoint: no weights in %s: looked for %s and %s; "+
			"a model in another format must be saved as safetensors first", dir, SingleFile, IndexFile)
	case err != nil:
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	index, err := parseIndex(raw)
	if err != nil {
		err = cmp.Or(plainjson.Unmarshal(raw, new(any)), err) // what is no JSON at all
		return nil, fmt.Errorf("checkpoint: cannot read %s: %w", path, err)
	}
	s, err := openAll(index.shards(dir))
	if err != nil {
		return nil, fmt.Errorf("%w (a shard of %s)", err, path)
	}
	if err := s.checkIndex(dir, index); err != nil {
		return nil, errors.Join(fmt.Errorf("checkpoint: cannot use %s: %w", path, err), s.Close())
	}
	return s, nil
}

// Names returns the names of all tensors in sorted order.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.where)) }

// Elems returns the number of elements of all tensors together. It reads no data.
func (s *Set) Elems() int {
	n := 0
	for name, f := range s.where {
		n += f.header.entries[name].shape.Elems()
	}
	return n
}

// Lookup is File.Lookup in the file that has the tensor.
func (s *Set) Lookup(name string) (core.DType, core.Shape, bool) {
	if f, ok := s.where[name]; ok {
		return f.Lookup(name)
	}
	return core.InvalidDType, nil, false
}

// Tensor is File.Tensor of the file that has it.
func (s *Set) Tensor(name string) (core.Tensor, error) { return s.TensorIn(new(Room), name) }

// TensorIn is File.TensorIn of the file that has the tensor.
func (s *Set) TensorIn(room *Room, name string) (core.Tensor, error) {
	f, ok := s.where[name]
	if !ok {
		return core.Tensor{}, fmt.Errorf("checkpoint: the model has no tensor %s", name)
	}
	return f.TensorIn(room, name)
}

// Bytes is File.Bytes of the file that has the tensor.
func (s *Set) Bytes(name string) ([]byte, bool, error) {
	if f, ok := s.where[name]; ok {
		return f.Bytes(name)
	}
	return nil, false, nil
}

// Same reports whether two tensors have the same type, shape and bytes. It has little of them in memory at a time.
func (s *Set) Same(a, b string) (bool, error) {
	f, g := s.where[a], s.where[b]
	if f == nil || g == nil {
		return false, nil
	}
	x, y := f.header.entries[a], g.header.entries[b]
	if x.dtypeName != y.dtypeName || !x.shape.Equal(y.shape) {
		return false, nil
	}
	const part = 4 << 20
	size := x.end - x.begin
	left, right := make([]byte, min(part, size)), make([]byte, min(part, size))
	for at := 0; at < size; at += part {
		n := min(part, size-at)
		if err := readAt(f.data, left[:n], x.begin+at); err != nil {
			return false, fmt.Errorf("checkpoint: cannot read tensor %s of %s: %w", a, f.path, err)
		}
		if err := readAt(g.data, right[:n], y.begin+at); err != nil {
			return false, fmt.Errorf("checkpoint: cannot read tensor %s of %s: %w", b, g.path, err)
		}
		if !bytes.Equal(left[:n], right[:n]) {
			return false, nil
		}
	}
	return true, nil
}

// Metadata returns the metadata of all files together. Where two files disagree, the
// one whose name sorts first wins.
func (s *Set) Metadata() map[string]string {
	all := map[string]string{}
	for _, f := range slices.Backward(s.files) {
		maps.Copy(all, f.header.metadata)
	}
	return all
}

// Close closes all files. A second Close does nothing.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	s.files, s.where = nil, nil
	return errors.Join(errs...)
}

// openAll opens the files and refuses a name that two of them use.
func openAll(paths []string) (*Set, error) {
	s := &Set{where: map[string]*File{}}
	for _, path := range paths {
		f, err := Open(path)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.files = append(s.files, f)
		for _, name := range f.Names() {
			if other, taken := s.where[name]; taken {
				err := fmt.Errorf("checkpoint: tensor %q is in two files, %s and %s; remove one of them", name, other.path, path)
				return nil, errors.Join(err, s.Close())
			}
			s.where[name] = f
		}
	}
	return s, nil
}

// fusedExperts are the ends of the names of tensors [experts, rows, columns], and the matrices that the rows of an
// expert are, one after the other.
var fusedExperts = map[string][]string{
	".experts.gate_up_proj": {"gate_proj", "up_proj"},
	".experts.down_proj":    {"down_proj"},
}

// separateExperts gives each expert its own matrices under its own names, where the files have those of a layer
// together, as transformers 5 holds them in memory and saves them on request. No data is moved: they are parts of the
// tensors. Those of gpt_oss, which have biases beside them, are not of this form.
func (s *Set) separateExperts() {
	const most = 1 << 12 // names are made for no more
	for _, fused := range s.Names() {
		f := s.where[fused]
		e := f.header.entries[fused]
		for end, matrices := range fusedExperts {
			path, ok := strings.CutSuffix(fused, end)
			if _, biases := s.where[path+".experts.down_proj_bias"]; !ok || biases || len(e.shape) != 3 || e.begin == e.end ||
				e.dtype == core.InvalidDType || e.shape[0] > most || e.shape[1]%len(matrices) != 0 {
				continue
			}
			names := make([]string, e.shape[0]*len(matrices))
			for i := range names {
				names[i] = fmt.Sprintf("%s.experts.%d.%s.weight", path, i/len(matrices), matrices[i%len(matrices)])
			}
			if slices.ContainsFunc(names, func(name string) bool { return s.where[name] != nil }) {
				continue
			}
			delete(s.where, fused)
			delete(f.header.entries, fused)
			part := e
			part.shape = core.Shape{e.shape[1] / len(matrices), e.shape[2]}
			size := (e.end - e.begin) / len(names)
			for i, name := range names {
				part.begin, part.end = e.begin+i*size, e.begin+(i+1)*size
				s.where[name], f.header.entries[name] = f, part
			}
		}
	}
}

// checkIndex reports the first tensor that is not where the index says.
func (s *Set) checkIndex(dir string, index index) error {
	for _, name := range slices.Sorted(maps.Keys(index)) {
		f, ok := s.where[name]
		if want := filepath.Join(dir, index[name]); !ok || f.path != want {
			return fmt.Errorf("tensor %q is not in its shard %s; download or save the model again", name, want)
		}
	}
	return nil
}

// index maps tensor names to shard files, as paths relative to the model's folder.
type index map[string]string

func parseIndex(raw []byte) (index, error) {
	x := index{}
	dec := newDecoder(raw)
	err := eachField(dec, func(field string) error {
		if field != "weight_map" {
			return dec.Decode(new(json.RawMessage)) // sizes and notes that we do not need
		}
		if err := eachString(dec, x.add); err != nil {
			return fmt.Errorf("weight_map: %w", err)
		}
		return nil
	})
	if err == nil && len(x) == 0 {
		err = errors.New("it names no tensor in \"weight_map\"")
	}
	return x, err
}

// add records one line of the weight map. A model folder has no business with files
// outside itself.
func (x index) add(name, shard string) error {
	local, err := filepath.Localize(shard)
	if err != nil {
		return fmt.Errorf("tensor %q: shard %q is not a path inside the model's folder", name, shard)
	}
	x[name] = local
	return nil
}

// shards returns the path of each shard once, sorted.
func (x index) shards(dir string) []string {
	unique := slices.Compact(slices.Sorted(maps.Values(x)))
	for i, name := range unique {
		unique[i] = filepath.Join(dir, name)
	}
	return unique
}
