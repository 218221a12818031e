package checkpoint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

func mustWrite(t testing.TB, path string, meta map[string]string, names ...string) {
	t.Helper()
	var list []Named
	for i, name := range names {
		list = append(list, Named{Name: name, Tensor: core.FromFloat32([]float32{float32(i)}, 1)})
	}
	if err := Write(path, list, meta); err != nil {
		t.Fatal(err)
	}
}

func TestOpenDirPrefersTheSingleFile(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, SingleFile), nil, "w")
	writeImage(t, filepath.Join(dir, IndexFile), []byte("not even JSON"))
	s, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !slices.Equal(s.Names(), []string{"w"}) {
		t.Errorf("Names() = %q", s.Names())
	}
}

func TestElemsCountsTheElementsOfAllShards(t *testing.T) {
	dir := t.TempDir()
	for shard, shapes := range map[string][]core.Shape{"1.safetensors": {{2, 3}, {0, 7}}, "2.safetensors": {{}, {5}}} {
		var list []Named
		for i, shape := range shapes {
			list = append(list, Named{Name: shard + string(rune('a'+i)), Tensor: core.NewTensor(core.Float16, shape...)})
		}
		if err := Write(filepath.Join(dir, shard), list, nil); err != nil {
			t.Fatal(err)
		}
	}
	writeImage(t, filepath.Join(dir, IndexFile),
		[]byte(`{"weight_map":{"1.safetensorsa":"1.safetensors","2.safetensorsa":"2.safetensors"}}`))
	s, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, want := s.Elems(), 2*3+0+1+5; got != want {
		t.Errorf("Elems() = %d, want %d", got, want)
	}
}

// Whatever is compared at a time, one that differs in its last byte, or in type or shape alone, is not the same.
func TestTensorsThatAreTheSame(t *testing.T) {
	const n = 1<<20 + 1 // more than is compared at a time
	long := func(last float32) core.Tensor {
		x := core.NewTensor(core.Float32, n)
		x.Float32s()[n-1] = last
		return x
	}
	dir := t.TempDir()
	for file, list := range map[string][]Named{
		"1.safetensors": {{Name: "a", Tensor: long(1)}, {Name: "i", Tensor: core.NewTensor(core.Int32, 2, 2)}},
		"2.safetensors": {{Name: "b", Tensor: long(1)}, {Name: "c", Tensor: long(2)},
			{Name: "d", Tensor: core.NewTensor(core.Float32, 2, 2)}, {Name: "e", Tensor: core.NewTensor(core.Float32, 4)}},
	} {
		if err := Write(filepath.Join(dir, file), list, nil); err != nil {
			t.Fatal(err)
		}
	}
	writeImage(t, filepath.Join(dir, IndexFile), []byte(`{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`))
	s, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for pair, want := range map[[2]string]bool{{"a", "b"}: true, {"a", "c"}: false, {"i", "d"}: false,
		{"d", "e"}: false, {"a", "none"}: false} {
		if same, err := s.Same(pair[0], pair[1]); same != want || err != nil {
			t.Errorf("%s and %s are the same: %v, %v, want %v", pair[0], pair[1], same, err, want)
		}
	}
}

func TestOpenDirJoinsShards(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "1.safetensors"), map[string]string{"from": "1"}, "b", "unlisted")
	mustWrite(t, filepath.Join(dir, "2.safetensors"), map[string]string{"from": "2", "two": "2"}, "a", "c")
	writeImage(t, filepath.Join(dir, IndexFile), []byte(`{"metadata":{"total_size":16,"deep":[{}]},`+
		`"weight_map":{"a":"2.safetensors","b":"1.safetensors","c":"2.safetensors"}}`))
	s, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Names(), []string{"a", "b", "c", "unlisted"}; !slices.Equal(got, want) {
		t.Errorf("Names() = %q, want %q", got, want)
	}
	if x, err := s.Tensor("c"); err != nil || x.Float32s()[0] != 1 {
		t.Errorf("c = %v, %v", x, err)
	}
	if _, err := s.Tensor("absent"); err == nil {
		t.Error("found a tensor that no shard has")
	}
	if m := s.Metadata(); m["from"] != "1" || m["two"] != "2" || m["format"] != "pt" {
		t.Errorf("Metadata() = %v", m)
	}
	files := s.files
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, f := range files {
		wantClosed(t, f)
	}
	if _, err := s.Tensor("a"); err == nil {
		t.Error("a closed set still hands out tensors")
	}
}

func TestOpenDirRefusesBrokenModels(t *testing.T) {
	for name, c := range map[string]struct {
		index string
		want  []string
	}{
		"no weights":            {"", []string{"no weights", SingleFile, IndexFile}},
		"index is not JSON":     {"weights", []string{IndexFile, "no JSON at column 1"}},
		"index is empty":        {"\n", []string{IndexFile, "empty"}},
		"index is cut":          {`{"weight_map":{"a":`, []string{IndexFile, "ends in the middle"}},
		"pointer of Git LFS":    {"version https://git-lfs.github.com/spec/v1\n", []string{IndexFile, "git lfs pull"}},
		"index without tensors": {`{"weight_map":{}}`, []string{IndexFile, "weight_map"}},
		"weight_map not a map":  {`{"weight_map":[]}`, []string{IndexFile, "weight_map", `unexpected "["`}},
		"shard not a string":    {`{"weight_map":{"a":1}}`, []string{IndexFile, `"a"`}},
		"tensor listed twice":   {`{"weight_map":{"a":"1.st","a":"1.st"}}`, []string{IndexFile, `duplicate name "a"`}},
		"missing shard":         {`{"weight_map":{"a":"1.st","b":"9.st"}}`, []string{"9.st", IndexFile}},
		"tensor in no shard":    {`{"weight_map":{"a":"1.st","z":"1.st"}}`, []string{`tensor "z"`, "1.st", IndexFile}},
		"tensor in other shard": {`{"weight_map":{"a":"1.st","c":"1.st","b":"2.st"}}`, []string{`tensor "c"`, "1.st"}},
		"tensor in two shards":  {`{"weight_map":{"a":"1.st","b":"3.st"}}`, []string{`tensor "a"`, "1.st", "3.st"}},
		"shard above":           {`{"weight_map":{"a":"../1.st"}}`, []string{`tensor "a"`, "../1.st", "inside"}},
		"shard above, hidden":   {`{"weight_map":{"a":"x/../../1.st"}}`, []string{`tensor "a"`, "inside"}},
		"absolute shard":        {`{"weight_map":{"a":"/1.st"}}`, []string{`tensor "a"`, "inside"}},
		"shard is the folder":   {`{"weight_map":{"a":"."}}`, []string{"not a regular file"}},
		"shard without a name":  {`{"weight_map":{"a":""}}`, []string{`tensor "a"`, "inside"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mustWrite(t, filepath.Join(dir, "1.st"), nil, "a")
			mustWrite(t, filepath.Join(dir, "2.st"), nil, "b", "c")
			mustWrite(t, filepath.Join(dir, "3.st"), nil, "a", "b")
			if c.index != "" {
				writeImage(t, filepath.Join(dir, IndexFile), []byte(c.index))
			}
			s, err := OpenDir(dir)
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			text := strings.ReplaceAll(err.Error(), dir, "DIR") // which has the name of the test
			for _, part := range append(c.want, "DIR") {
				if !strings.Contains(text, part) {
					t.Errorf("error %q lacks %q", text, part)
				}
			}
		})
	}
}

func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":1},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"x/y"}}`))
	f.Add([]byte(`{"weight_map":{"a":"..\\x","b":"c:/x"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		x, err := parseIndex(raw)
		if err != nil {
			return
		}
		root := string(filepath.Separator) + "models"
		for _, shard := range x.shards(root) {
			if rel, err := filepath.Rel(root, shard); err != nil || !filepath.IsLocal(rel) {
				t.Errorf("shard %q lies outside the model's folder", shard)
			}
		}
	})
}

func TestOpenDirNamesAnUnreadableFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDir(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v does not name %s", err, path)
	}
}
