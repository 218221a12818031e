package checkpoint

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// summed writes a folder with checksums: small files, and weights larger than what is
// hashed at once.
func summed(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	f, err := NewFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{f.WriteFile("config.json", []byte("{}")), f.WriteFile("empty", nil),
		f.WriteFile("tune.yaml", []byte("seed: 1")), f.WriteFile("training_log.jsonl", []byte("{}\n")),
		f.WriteFile("trainer_state.json", []byte("{}")),
		f.WriteTensors(SingleFile, []Named{{Name: "w", Tensor: random(core.Float32, 1<<15)},
			{Name: "b", Tensor: random(core.Float32, 3)}}, nil),
		f.Commit()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEveryDamageIsFound(t *testing.T) {
	if err := Verify(summed(t)); err != nil {
		t.Fatalf("a folder as it was saved: %v", err)
	}
	change := func(edit func([]byte) []byte) func(path string) error {
		return func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, edit(b), 0o666)
		}
	}
	for _, name := range folderNames(t, summed(t)) {
		for how, damage := range map[string]func(path string) error{
			"first bit": change(func(b []byte) []byte { b = append(b, 0); b[0] ^= 1; return b[:max(len(b)-1, 1)] }),
			"last bit": change(func(b []byte) []byte {
				b = append([]byte{0},
					b...)
				b[len(b)-1] ^= 128
				return b[min(1, len(b)-1):]
			}),
			"longer":  change(func(b []byte) []byte { return append(b, '\n') }),
			"cut":     change(func(b []byte) []byte { return b[:len(b)/2] }),
			"missing": os.Remove,
		} {
			if how == "cut" && name == "empty" || how == "missing" && name == SumsFile {
				continue // which changes nothing, or makes it a folder without checksums
			}
			dir := summed(t)
			if err := damage(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if err := Verify(dir); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
				t.Errorf("%s, %s: error %v, want one that names the file", name, how, err)
			}
		}
	}
}

func TestAFolderWithoutChecksumsIsNotCompared(t *testing.T) {
	dir := t.TempDir()
	write1(t, filepath.Join(dir, "config.json"), "{}")
	if err := Verify(dir); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeReadIsNotWhole(t *testing.T) {
	for _, name := range []string{"config.json", SumsFile} {
		dir := summed(t)
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o777)); err != nil {
			t.Fatal(err)
		}
		if err := Verify(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("a folder in place of %s: %v", name, err)
		}
	}
}

// Of a model, what only training needs may be damaged, and what is not needed gone.
func TestAModelNeedsItsOwnFiles(t *testing.T) {
	dir := summed(t)
	if err := errors.Join(os.Remove(filepath.Join(dir, "empty")), VerifyModel(dir, SingleFile)); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"tune.yaml", "training_log.jsonl", "trainer_state.json"} {
		write1(t, filepath.Join(dir, name), "changed")
	}
	if err := VerifyModel(dir, SingleFile); err != nil {
		t.Errorf("what is no part of a model was changed: %v", err)
	}
	if err := Verify(dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("the same for a run that goes on: %v", err)
	}
	write1(t, filepath.Join(dir, SingleFile), "else")
	if err := VerifyModel(dir, "adapter_model.safetensors"); err != nil {
		t.Error(err)
	}
	if err := VerifyModel(dir, SingleFile); !errors.Is(err, ErrDamaged) {
		t.Errorf("other weights: %v", err)
	}
	write1(t, filepath.Join(dir, "config.json"), "else")
	if err := VerifyModel(dir, "adapter_model.safetensors"); !errors.Is(err, ErrDamaged) {
		t.Errorf("another configuration: %v", err)
	}
}

// The file is what a widespread program reads.
func TestChecksumsAreThoseOfSHA256SUM(t *testing.T) {
	dir := summed(t)
	cmd := exec.Command("sha256sum", "--strict", "-c", SumsFile)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	}
	if err != nil || strings.Count(string(out), ": OK\n") != 6 {
		t.Errorf("%v\n%s", err, out)
	}
}

// BenchmarkChecksums writes a file of 256 MiB with and without its checksum, and compares it.
func BenchmarkChecksums(b *testing.B) {
	const bytes = 256 << 20
	dir := b.TempDir()
	tensors := []Named{{Name: "a", Tensor: random(core.Float32, bytes/8)},
		{Name: "b", Tensor: random(core.Float32, bytes/8)}}
	head, err := encodeHeader(tensors, nil)
	if err != nil {
		b.Fatal(err)
	}
	f, err := NewFolder(filepath.Join(dir, "out"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Abort()
	for name, do := range map[string]func() error{
		"plain": func() error {
			return replaceFile(filepath.Join(dir, "plain"), 0o644, func(w io.Writer) error { return writeTo(w, head, tensors) })
		},
		"write":  func() error { return f.WriteTensors("summed", tensors, nil) },
		"verify": func() error { return errors.Join(f.writeSums(), Verify(f.dir)) },
	} {
		b.Run(name, func(b *testing.B) {
			if err := f.WriteTensors("summed", tensors, nil); err != nil { // for verify
				b.Fatal(err)
			}
			b.SetBytes(bytes)
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
