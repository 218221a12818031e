package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// random returns a tensor of random bits: NaNs, infinities, subnormals and all.
func random(d core.DType, shape ...int) core.Tensor {
	t := core.NewTensor(d, shape...)
	rng := rand.New(rand.NewPCG(1, uint64(d)))
	for i := range t.Data {
		t.Data[i] = byte(rng.Uint32())
	}
	return t
}

// folderNames returns the names in a folder, to show that nothing is left over.
func folderNames(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWriteThenOpenIsBitExact(t *testing.T) {
	var list []Named
	for _, d := range dtypes() {
		list = append(list, Named{Name: d.String() + ".matrix", Tensor: random(d, 3, 5)},
			Named{Name: d.String() + ".scalar", Tensor: random(d)},
			Named{Name: d.String() + ".empty", Tensor: random(d, 0, 4)})
	}
	list = append(list, Named{Name: "odd <name> \"quoted\" \u00e9\u2028", Tensor: random(core.BFloat16, 7)})
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := Write(path, list, map[string]string{"step": "12"}); err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, path)
	if got := len(f.Names()); got != len(list) {
		t.Fatalf("%d tensors, want %d", got, len(list))
	}
	for _, want := range list {
		got, err := f.Tensor(want.Name)
		if err != nil || got.DType != want.Tensor.DType || !got.Shape.Equal(want.Tensor.Shape) ||
			!bytes.Equal(got.Data, want.Tensor.Data) {
			t.Errorf("%s: %v %v, want %v %v with the same bytes", want.Name, got.DType, got.Shape, want.Tensor.DType,
				want.Tensor.Shape)
		}
	}
	if m := f.Metadata(); len(m) != 2 || m["format"] != "pt" || m["step"] != "12" {
		t.Errorf("metadata %v", m)
	}
}

// TestATensorThatIsNarrowedIsWrittenAsItsCopyWouldBe, longer than what is narrowed at a time.
func TestATensorThatIsNarrowedIsWrittenAsItsCopyWouldBe(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	wide := core.NewTensor(core.Float32, 3, 1<<16+7)
	for i := range wide.Elems() {
		wide.Float32s()[i] = float32(rng.NormFloat64())
	}
	dir := t.TempDir()
	file := func(name string, n Named) []byte {
		path := filepath.Join(dir, name)
		err := Write(path, []Named{{Name: "b", Tensor: wide}, n}, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, as := range []core.DType{core.BFloat16, core.Float16} {
		narrow := core.NewTensor(as, wide.Shape...)
		narrow.Store(wide.Float32s(), 0)
		n := Named{Name: "a", Tensor: wide, As: as}
		if !bytes.Equal(file("narrowed", n), file("copied", Named{Name: "a", Tensor: narrow})) {
			t.Errorf("%s: the files differ", as)
		}
		if n.DType() != as || n.Bytes() != len(narrow.Data) || n.Overflows() {
			t.Errorf("%s: %s of %d bytes, overflows %v", as, n.DType(), n.Bytes(), n.Overflows())
		}
		wide.Float32s()[1<<17] = 1e30 // too large for the one alone
		if n.Overflows() != (as == core.Float16) {
			t.Errorf("%s overflows: %v", as, n.Overflows())
		}
		wide.Float32s()[1<<17] = 1
	}
}

func TestWriteAlignsEveryTensor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.safetensors")
	list := []Named{{Name: "a", Tensor: random(core.BFloat16, 3)}, {Name: "b", Tensor: random(core.Float32, 3)},
		{Name: "c", Tensor: random(core.Float64, 1)}}
	if err := Write(path, list, nil); err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, name := range []string{"c", "b", "a"} { // largest elements first
		if e := f.header.entries[name]; e.begin != at {
			t.Errorf("%s is at byte %d of the data, want %d", name, e.begin, at)
		}
		at = f.header.entries[name].end
	}
	if (int(info.Size())-at)%8 != 0 {
		t.Errorf("the data begin at byte %d of the file, want a multiple of 8", int(info.Size())-at)
	}
}

func TestWriteRefusesWhatCannotBeRead(t *testing.T) {
	one := core.FromFloat32([]float32{1}, 1)
	for name, c := range map[string]struct {
		list []Named
		meta map[string]string
		want string
	}{
		"no name":       {[]Named{{Name: "", Tensor: one}}, nil, "name of a tensor"},
		"reserved name": {[]Named{{Name: metadataKey, Tensor: one}}, nil, "name of a tensor"},
		"invalid name":  {[]Named{{Name: "\xff", Tensor: one}}, nil, "name of a tensor"},
		"same name":     {[]Named{{Name: "w", Tensor: one}, {Name: "w", Tensor: one}}, nil, `two tensors are called "w"`},
		"zero tensor":   {[]Named{{Name: "w", Tensor: core.Tensor{}}}, nil, `tensor "w"`},
		"wrong size": {[]Named{{Name: "w",
			Tensor: core.Tensor{DType: core.Float32, Shape: core.Shape{2}, Data: make([]byte, 4)}}},
			nil, `tensor "w"`},
		"wrapping shape": {[]Named{{Name: "w",
			Tensor: core.Tensor{DType: core.Float32, Shape: core.Shape{math.MaxInt, 2}}}}, nil,
			`too large`},
		"invalid meta": {[]Named{{Name: "w", Tensor: one}}, map[string]string{"a": "\xff"}, "metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.safetensors")
			err := Write(path, c.list, c.meta)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want it to name %q and the file", err, c.want)
			}
			if names := folderNames(t, filepath.Dir(path)); len(names) != 0 {
				t.Errorf("left over: %q", names)
			}
		})
	}
}

// full is a disk with room for n more bytes.
type full struct {
	io.Writer
	n int
}

var errFull = errors.New("no space left")

func (f *full) Write(b []byte) (int, error) {
	if len(b) <= f.n {
		f.n -= len(b)
		return f.Writer.Write(b)
	}
	n, err := f.Writer.Write(b[:f.n])
	f.n = 0
	return n, errors.Join(err, errFull)
}

func TestDiskFullKeepsTheOldFileAndNothingElse(t *testing.T) {
	list := []Named{{Name: "w", Tensor: random(core.Float32, 64)}}
	head, err := encodeHeader(list, nil)
	if err != nil {
		t.Fatal(err)
	}
	size := lengthBytes + len(head) + 256
	for room := 0; room < size; room += 9 {
		dir := t.TempDir()
		path := writeImage(t, filepath.Join(dir, "m.safetensors"), []byte("old"))
		err := replaceFile(path, 0o644, func(w io.Writer) error { return writeTo(&full{w, room}, head, list) })
		if !errors.Is(err, errFull) {
			t.Fatalf("room for %d bytes: %v", room, err)
		}
		if got, _ := os.ReadFile(path); string(got) != "old" {
			t.Errorf("room for %d bytes: the old file is gone", room)
		}
		if names := folderNames(t, dir); !slices.Equal(names, []string{"m.safetensors"}) {
			t.Errorf("room for %d bytes: left over: %q", room, names)
		}
	}
}

func TestWriteFileAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.json")
	for _, want := range []string{"first, and longer", "second"} {
		if err := WriteFileAtomic(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFileAtomic(filepath.Join(dir, "folder"), nil, 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if err := WriteFileAtomic(filepath.Join(dir, "absent", "f"), nil, 0o600); err == nil {
		t.Error("a file was written to a folder that does not exist")
	}
	if names := folderNames(t, dir); !slices.Equal(names, []string{"config.json", "folder"}) {
		t.Errorf("left over: %q", names)
	}
}

// TestWriteNewReplacesNothing that comes while it writes, where files can have two names and where they cannot.
func TestWriteNewReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	write := func(text string, meanwhile func() error) error {
		return WriteNew(path, 0o600, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return errors.Join(err, meanwhile())
		})
	}
	err := write("second", func() error { return write("first", func() error { return nil }) })
	if err == nil || !strings.Contains(err.Error(), "m.gguf exists: choose another name, or remove it") {
		t.Errorf("error %v", err)
	}
	tmp := filepath.Join(dir, "tmp")
	if err := os.WriteFile(tmp, []byte("third"), 0o600); err != nil {
		t.Fatal(err)
	}
	noLinks := func(string, string) error { return errors.ErrUnsupported }
	if err := publish(tmp, path, noLinks); err == nil {
		t.Error("a file was replaced where there are no links")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "first" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := publish(tmp, filepath.Join(dir, "new"), noLinks); err != nil {
		t.Error(err)
	}
	if err := publish(tmp, filepath.Join(dir, "another"), noLinks); err == nil {
		t.Error("what is not there was given a name")
	}
	if err := Vacant(filepath.Join(path, "below")); err == nil && runtime.GOOS != "windows" {
		t.Error("a file has room for files")
	}
	if names := folderNames(t, dir); !slices.Equal(names, []string{"m.gguf", "new"}) {
		t.Errorf("left over: %q", names)
	}
}
