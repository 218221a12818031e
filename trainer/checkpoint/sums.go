package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// SumsFile is where a folder has the checksums of its other files, as "sha256sum -c" reads
// them. Its last line is a comment with the checksum of those above.
const SumsFile = "tune.sha256"

// ErrDamaged is what the error of a file wraps that is not what was saved.
var ErrDamaged = errors.New("not what was saved")

// selfLine begins the last line.
const selfLine = "# sha256 of the lines above: "

// sums are checksums in hexadecimal, by the name of the file.
type sums map[string]string

func (s *sums) set(name string, sum [sha256.Size]byte) {
	if *s == nil {
		*s = sums{}
	}
	(*s)[name] = hex.EncodeToString(sum[:])
}

// writeSums writes the checksums of what was written by WriteFile and WriteTensors.
func (f *Folder) writeSums() error {
	if f.sums == nil {
		return nil
	}
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(f.sums)) {
		fmt.Fprintf(&b, "%s  %s\n", f.sums[name], name)
	}
	fmt.Fprintf(&b, "%s%x\n", selfLine, sha256.Sum256(b.Bytes()))
	if err := os.WriteFile(f.Path(SumsFile), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// parseSums reads what writeSums writes, and nothing else.
func parseSums(text []byte) (sums, error) {
	lines, self, _ := bytes.Cut(text, []byte(selfLine))
	if want := fmt.Sprintf("%x\n", sha256.Sum256(lines)); string(self) != want {
		return nil, ErrDamaged
	}
	s := sums{}
	for line := range strings.Lines(string(lines)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || !filepath.IsLocal(name) || name != path.Clean(name) {
			return nil, fmt.Errorf("%w: %q is no checksum of a file beside it", ErrDamaged, line)
		}
		s[name] = sum
	}
	return s, nil
}

// Verify compares all files of a folder with the checksums that it has. A folder without
// any is not compared. Errors name the file; those of a file that differs or is missing
// wrap ErrDamaged.
func Verify(dir string) error { return verify(dir, func(string) bool { return true }, true) }

// VerifyModel is Verify of the files that make a folder one with a model or an adapter, as
// far as they are there: it leaves out what only training reads, the optimizer's state and
// the like, and what people change on purpose, such as the run's flags.
func VerifyModel(dir, weights string) error {
	return verify(dir, func(name string) bool {
		switch filepath.Ext(name) {
		case ".safetensors":
			return name == weights
		case ".jsonl", ".yaml":
			return false
		}
		return name != "trainer_state.json"
	}, false)
}

func verify(dir string, want func(name string) bool, all bool) error {
	file := filepath.Join(dir, SumsFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	s, err := parseSums(text)
	if err != nil {
		return fmt.Errorf("checkpoint: %s is %w", file, err)
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s)), func(name string) bool { return !want(name) })
	errs, next := make([]error, len(names)), make(chan int)
	var wg sync.WaitGroup
	for range min(len(names), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = verifyFile(filepath.Join(dir, names[i]), s[names[i]], all)
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	wg.Wait()
	return errors.Join(errs...)
}

// verifyFile reads the file, and not its mapping, which would stay in this process's memory.
func verifyFile(path, want string, must bool) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if !must {
			return nil
		}
		return fmt.Errorf("checkpoint: %s is missing: the folder is %w", path, ErrDamaged)
	}
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
		return fmt.Errorf("checkpoint: read %s: %w", path, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("checkpoint: %s is %w: it is damaged, or was changed (its SHA-256 is %s, and %s has %s)", path,
			ErrDamaged, short(got), SumsFile, short(want))
	}
	return nil
}

// short is as much of a checksum as tells two apart.
func short(sum string) string { return sum[:min(len(sum), 12)] + "..." }
