package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// image is a safetensors file with the given header and size zero bytes of data.
func image(header string, size int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, size)...)
}

func writeImage(t testing.TB, path string, b []byte) string {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustOpen(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestOpenReadsWhatTheHeaderDescribes(t *testing.T) {
	b := image(`{"__metadata__":{"format":"pt","k":"v"},`+
		`"b":{"dtype":"I32","shape":[2,1],"data_offsets":[0,8]},`+
		`"empty":{"dtype":"F32","shape":[0,2147483647],"data_offsets":[8,8]},`+
		`"scalar":{"data_offsets":[8,10],"dtype":"BF16","shape":[]}}      `, 10)
	copy(b[len(b)-10:], []byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x80, 0x3f})
	f := mustOpen(t, writeImage(t, filepath.Join(t.TempDir(), "m.safetensors"), b))

	if got, want := f.Names(), []string{"b", "empty", "scalar"}; !slices.Equal(got, want) {
		t.Errorf("Names() = %q, want %q", got, want)
	}
	if m := f.Metadata(); len(m) != 2 || m["k"] != "v" {
		t.Errorf("Metadata() = %v", m)
	}
	if x, _ := f.Tensor("b"); !slices.Equal(x.Int32s(), []int32{1, -1}) || !x.Shape.Equal(core.Shape{2, 1}) {
		t.Errorf("b = %v %v", x.Shape, x.Int32s())
	}
	if x, err := f.Tensor("empty"); err != nil || x.Elems() != 0 || x.Valid() != nil {
		t.Errorf("empty = %v, %v", x, err)
	}
	if x, _ := f.Tensor("scalar"); len(x.Shape) != 0 || core.BFloat16ToFloat32(x.Uint16s()[0]) != 1 {
		t.Errorf("scalar = %v", x)
	}
	if dtype, shape, ok := f.Lookup("b"); !ok || dtype != core.Int32 || !shape.Equal(core.Shape{2, 1}) {
		t.Errorf("b is %s %v, %v", dtype, shape, ok)
	}
	if _, _, ok := f.Lookup("absent"); ok {
		t.Error("Lookup found a tensor that the file does not have")
	}
	if _, err := f.Tensor("absent"); err == nil {
		t.Error("Tensor found a tensor that the file does not have")
	}
}

// TestTensorsAreAlignedWhereverTheyLieInTheFile: the header's length may be odd.
func TestTensorsAreAlignedWhereverTheyLieInTheFile(t *testing.T) {
	const head = `{"x":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}`
	for pad := range 8 {
		b := image(head+strings.Repeat(" ", pad), 8)
		binary.LittleEndian.PutUint64(b[len(b)-8:], math.Float64bits(math.Pi))
		f := mustOpen(t, writeImage(t, filepath.Join(t.TempDir(), "m.safetensors"), b))
		x, _ := f.Tensor("x")
		if err := x.Valid(); err != nil || x.Float64s()[0] != math.Pi {
			t.Errorf("pad %d: %v, %v", pad, x, err)
		}
	}
}

// TestAFileThatIsCutShortWhileItIsOpen is an error of the tensors that are no more whole.
func TestAFileThatIsCutShortWhileItIsOpen(t *testing.T) {
	const size = 1 << 20 // many pages
	path := filepath.Join(t.TempDir(), "m.safetensors")
	mustWriteTensors(t, path, Named{Name: "a", Tensor: random(core.Float32, size/4)},
		Named{Name: "b", Tensor: random(core.Float32, size/4)})
	f := mustOpen(t, path)
	if err := os.Truncate(path, size+size/2); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Tensor("a"); err != nil {
		t.Errorf("the tensor that is still whole: %v", err)
	}
	_, err := f.Tensor("b")
	if err == nil || !strings.Contains(err.Error(), "tensor b of "+path) || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("error %v", err)
	}
}

func TestRoomIsUsedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.safetensors")
	mustWriteTensors(t, path, Named{Name: "large", Tensor: random(core.Float32, 100)},
		Named{Name: "small", Tensor: random(core.BFloat16, 3)})
	f := mustOpen(t, path)
	var room Room
	large, err := f.TensorIn(&room, "large")
	if err != nil {
		t.Fatal(err)
	}
	small, err := f.TensorIn(&room, "small")
	if err != nil || &small.Data[0] != &large.Data[0] || len(small.Data) != 6 || cap(small.Data) != 6 {
		t.Errorf("%d bytes with room for %d, %v", len(small.Data), cap(small.Data), err)
	}
	own := core.NewTensor(core.BFloat16, 3)
	if there, err := f.TensorIn(RoomOf(own), "small"); err != nil || &there.Data[0] != &own.Data[0] {
		t.Errorf("a tensor was not read to where there was room for it, %v", err)
	}
	if want, err := f.Tensor("small"); err != nil || !bytes.Equal(small.Data, want.Data) {
		t.Errorf("%v, want %v, %v", small.Data, want.Data, err)
	}
}

func mustWriteTensors(t *testing.T, path string, tensors ...Named) {
	t.Helper()
	if err := Write(path, tensors, nil); err != nil {
		t.Fatal(err)
	}
}

func TestClosedFileHasNoTensors(t *testing.T) {
	f := mustOpen(t, writeImage(t, filepath.Join(t.TempDir(), "m"),
		image(`{"x":{"dtype":"F16","shape":[],"data_offsets":[0,2]}}`, 2)))
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Tensor("x"); err == nil || len(f.Names()) != 0 {
		t.Error("a closed file still hands out tensors")
	}
	wantClosed(t, f)
}

func wantClosed(t *testing.T, f *File) {
	t.Helper()
	if _, err := f.data.ReadAt(make([]byte, 1), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%s is still open: %v", f.path, err)
	}
}

// TestALargeTensorIsReadInParts, none of which may be left out, or fail without a word.
func TestALargeTensorIsReadInParts(t *testing.T) {
	const at, size = 5, 3<<20 + 7
	file := random(core.Int8, at+size).Data
	got := make([]byte, size)
	if err := readAt(bytes.NewReader(file), got, at); err != nil || !bytes.Equal(got, file[at:]) {
		t.Errorf("other bytes were read, %v", err)
	}
	for _, missing := range []int{1, 8, 1 << 20, size} {
		err := readAt(bytes.NewReader(file[:len(file)-missing]), got, at)
		if err == nil || !strings.Contains(err.Error(), "shorter") {
			t.Errorf("without the last %d bytes: %v", missing, err)
		}
	}
	closed, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	if err := readAt(closed, got, at); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

func TestOpenRefusesDamagedFiles(t *testing.T) {
	tensor := func(name, dtype, shape, offsets string) string {
		return `"` + name + `":{"dtype":"` + dtype + `","shape":` + shape + `,"data_offsets":` + offsets + `}`
	}
	one := func(dtype, shape, offsets string, size int) []byte {
		return image("{"+tensor("w", dtype, shape, offsets)+"}", size)
	}
	two := func(a, b string) []byte {
		return image("{"+tensor("a", "F32", "[1]", a)+","+tensor("b", "F32", "[1]", b)+"}", 8)
	}
	length := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	good := tensor("w", "F32", "[1]", "[0,4]")

	for name, c := range map[string]struct {
		file []byte
		want []string // parts of the error
	}{
		"empty file":                {nil, []string{"0 bytes"}},
		"shorter than its length":   {[]byte("1234567"), []string{"7 bytes"}},
		"header beyond the file":    {append(length(3), "{}"...), []string{"header length 3", "beyond the end"}},
		"header above the limit":    {length(maxHeaderBytes + 1), []string{"limit"}},
		"header length of all ones": {length(math.MaxUint64), []string{"limit"}},
		"pointer of Git LFS": {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
			[]string{"git lfs pull"}},
		"web page":                  {[]byte("<html></html>"), []string{"web page"}},
		"no header":                 {length(0), []string{"not a JSON object"}},
		"header is an array":        {image("[]", 0), []string{"not a JSON object"}},
		"space before the header":   {image(" {}", 0), []string{"not a JSON object"}},
		"invalid UTF-8":             {image("{\"\xff\":1}", 0), []string{"UTF-8"}},
		"unfinished JSON":           {image(`{"w":{"dtype":"F32"`, 0), []string{`tensor "w"`, "unexpected EOF"}},
		"trailing comma":            {image("{"+good+",}", 4), []string{"invalid character"}},
		"two objects":               {image("{"+good+"}{}", 4), []string{"after the JSON object"}},
		"duplicate tensor":          {image("{"+good+","+good+"}", 4), []string{`duplicate name "w"`}},
		"duplicate tensor, escaped": {image("{"+good+`,"\u0077":{}}`, 4), []string{`duplicate name "w"`}},
		"duplicate field": {image(`{"w":{"dtype":"F32","dtype":"F32"}}`, 0),
			[]string{`tensor "w"`, `duplicate name "dtype"`}},
		"duplicate metadata":    {image(`{"__metadata__":{"a":"","a":""}}`, 0), []string{`duplicate name "a"`}},
		"metadata not a string": {image(`{"__metadata__":{"a":1}}`, 0), []string{`"a"`, "unexpected"}},
		"metadata null":         {image(`{"__metadata__":null}`, 0), []string{"unexpected"}},
		"entry not an object":   {image(`{"w":3}`, 0), []string{`tensor "w"`}},
		"unknown field":         {image(`{"w":{"Dtype":"F32"}}`, 0), []string{`tensor "w"`, `"Dtype"`}},
		"no shape": {image(`{"w":{"dtype":"F32","data_offsets":[0,0]}}`, 0),
			[]string{`tensor "w"`, "no shape"}},
		"no offsets": {image(`{"w":{"dtype":"F32","shape":[]}}`, 0),
			[]string{`tensor "w"`, "data_offsets"}},
		"three offsets":       {one("F32", "[1]", "[0,2,4]", 4), []string{`tensor "w"`, "two numbers"}},
		"nested shape":        {one("F32", "[[1]]", "[0,4]", 4), []string{`tensor "w"`, "shape"}},
		"fraction in shape":   {one("F32", "[1.5]", "[0,4]", 4), []string{`tensor "w"`, "1.5"}},
		"exponent in offsets": {one("F32", "[1]", "[0,4e0]", 4), []string{`tensor "w"`, "4e0"}},
		"negative axis":       {one("F32", "[-1]", "[0,4]", 4), []string{`tensor "w"`, "negative"}},
		"two negative axes":   {one("F32", "[-1,-1]", "[0,4]", 4), []string{`tensor "w"`, "negative"}},
		"axis above int":      {one("F32", "[9223372036854775808]", "[0,4]", 4), []string{`tensor "w"`, "range"}},
		"shape wraps round to 4 bytes": {one("F32", "[4611686018427387905]", "[0,4]", 4),
			[]string{`tensor "w"`, "too large"}},
		"shape wraps round to 0": {one("F32", "[4294967296,4294967296]", "[0,0]", 0),
			[]string{`tensor "w"`, "too large"}},
		"shape too small":        {one("F32", "[1]", "[0,8]", 8), []string{`tensor "w"`, "needs 4 bytes", "span 8"}},
		"shape too large":        {one("BF16", "[3]", "[0,4]", 4), []string{`tensor "w"`, "needs 6 bytes", "span 4"}},
		"negative offset":        {one("F32", "[1]", "[-4,0]", 4), []string{`tensor "w"`, "outside"}},
		"offsets swapped":        {one("F32", "[1]", "[4,0]", 4), []string{`tensor "w"`, "outside"}},
		"offset beyond the data": {one("F32", "[2]", "[0,8]", 4), []string{`tensor "w"`, "outside", "4 bytes"}},
		"overlap":                {two("[0,4]", "[2,6]"), []string{`tensor "b"`, "overlaps"}},
		"same bytes twice":       {two("[4,8]", "[4,8]"), []string{`tensor "a"`, "4 bytes before"}},
		"hole": {image("{"+tensor("a", "F32", "[1]", "[0,4]")+","+tensor("b", "F32", "[1]",
			"[5,9]")+"}", 9), []string{`tensor "b"`, "1 bytes before"}},
		"hole at the start":          {one("F32", "[1]", "[4,8]", 8), []string{`tensor "w"`, "4 bytes before"}},
		"data after the last tensor": {one("F32", "[1]", "[0,4]", 5), []string{"1 bytes at the end"}},
		"data without tensors":       {image("{}", 3), []string{"3 bytes at the end"}},
		"unsupported dtypes, each named": {image("{"+tensor("q", "F8_E4M3", "[1]", "[0,1]")+","+tensor("m", "BOOL", "[1]",
			"[1,2]")+"}", 2),
			[]string{`"m" (BOOL), "q" (F8_E4M3)`, "BF16, F16, F32, F64, I32, I64"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeImage(t, filepath.Join(t.TempDir(), "broken.safetensors"), c.file)
			f, err := Open(path)
			if err == nil {
				f.Close()
				t.Fatal("opened")
			}
			text, named := strings.CutPrefix(err.Error(), "checkpoint: cannot read "+path+": ")
			if !named {
				t.Errorf("error %q does not name the file", err)
			}
			for _, part := range c.want { // not in the path, which has the name of the test
				if !strings.Contains(text, part) {
					t.Errorf("error %q lacks %q", text, part)
				}
			}
		})
	}
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("folder: %v", err)
	}
}

// Whatever split accepts must be readable in full, and survive being written again.
func FuzzSplit(f *testing.F) {
	f.Add(image(`{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4))
	f.Add(image(`{"__metadata__":{"a":"b"},"x":{"dtype":"BF16","shape":[2,0],"data_offsets":[0,0]}}`, 0))
	f.Add(image(`{"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"b":{"dtype":"F16","shape":[1],`+
		`"data_offsets":[8,10]}} `, 10))
	f.Add(image(`{"w":{"dtype":"F32","shape":[-1,4294967296],"data_offsets":[0,99999999999999999999]}}`, 0))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, '{'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, data, err := split(bytes.NewReader(raw), len(raw))
		if err != nil {
			return
		}
		file := File{header: h, data: data}
		total, list := 0, []Named{}
		for _, name := range file.Names() {
			x, err := file.Tensor(name)
			if err := errors.Join(err, x.Valid()); err != nil {
				t.Fatalf("tensor %q: %v", name, err)
			}
			total += len(x.Data)
			list = append(list, Named{Name: name, Tensor: x})
		}
		if size := int(data.(*io.SectionReader).Size()); total != size {
			t.Fatalf("tensors have %d bytes, the file %d", total, size)
		}
		again, err := encodeHeader(list, h.metadata)
		if err != nil {
			t.Fatal(err)
		}
		if h2, err := parseHeader(again, total); err != nil || len(h2.entries) != len(h.entries) {
			t.Fatalf("written again: %v", err)
		}
	})
}
