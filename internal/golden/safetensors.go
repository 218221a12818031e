package golden

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"testing"
)

// file is a recording: tensors by name, and the parameters of each variant.
type file struct {
	t       testing.TB
	tensors map[string]entry
	data    []byte
	notes   struct {
		Variants map[string]struct{ Params json.RawMessage }
	}
}

// entry is a line of a safetensors header.
type entry struct {
	DType   string
	Shape   []int
	Offsets [2]int `json:"data_offsets"`
}

// open reads path.safetensors and path.json.
func open(t testing.TB, path string) file {
	f, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	f.t = t
	return f
}

func read(path string) (f file, err error) {
	notes, err := os.ReadFile(path + ".json")
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(notes, &f.notes); err != nil {
		return f, fmt.Errorf("%s.json: %w", path, err)
	}
	b, err := os.ReadFile(path + ".safetensors")
	if err != nil {
		return f, err
	}
	if len(b) < 8 || binary.LittleEndian.Uint64(b) > uint64(len(b)-8) {
		return f, fmt.Errorf("%s.safetensors: cut short", path)
	}
	n := 8 + binary.LittleEndian.Uint64(b)
	header := map[string]json.RawMessage{}
	if err := json.Unmarshal(b[8:n], &header); err != nil {
		return f, fmt.Errorf("%s.safetensors: header: %w", path, err)
	}
	delete(header, "__metadata__")
	f.tensors, f.data = map[string]entry{}, b[n:]
	for name, raw := range header {
		var e entry
		if err := json.Unmarshal(raw, &e); err != nil {
			return f, fmt.Errorf("%s.safetensors: %s: %w", path, name, err)
		}
		if e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1] > len(f.data) {
			return f, fmt.Errorf("%s.safetensors: %s: data_offsets %v lie outside the file", path, name, e.Offsets)
		}
		f.tensors[name] = e
	}
	return f, nil
}

func (f file) variants() []string { return slices.Sorted(maps.Keys(f.notes.Variants)) }

func (f file) params(variant string, into any) {
	if err := json.Unmarshal(f.notes.Variants[variant].Params, into); err != nil {
		f.t.Fatal(err)
	}
}

func (f file) entry(name string) entry {
	e, ok := f.tensors[name]
	if !ok {
		f.t.Fatalf("the recording has no tensor %s", name)
	}
	return e
}

func (f file) shape(name string) []int { return f.entry(name).Shape }

// values widens a tensor of either float type.
func (f file) values(name string) []float64 {
	e := f.entry(name)
	b := f.data[e.Offsets[0]:e.Offsets[1]]
	var out []float64
	switch e.DType {
	case "F32":
		for ; len(b) > 0; b = b[4:] {
			out = append(out, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		}
	case "F64":
		for ; len(b) > 0; b = b[8:] {
			out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
	default:
		f.t.Fatalf("%s: unexpected type %s", name, e.DType)
	}
	return out
}
