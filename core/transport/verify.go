package transport

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/cpu"
)

// strictKernel is a kernel whose calls never fall back: a reference that answers for a
// broken plugin would always be found correct.
type strictKernel struct{ *kernel }

// Forward implements core.Kernel.
func (k strictKernel) Forward(ctx context.Context, c *core.Call) error {
	return k.run(ctx, c, core.Forward, true)
}

// Backward implements core.Kernel.
func (k strictKernel) Backward(ctx context.Context, c *core.Call) error {
	return k.run(ctx, c, core.Backward, true)
}

// Verify implements core.Verifier. That a kernel was found correct is remembered on
// disk, for this executable on this kind of machine; failures are not.
func (k *kernel) Verify(ctx context.Context, f core.Facts) error {
	record := k.verifiedPath(f)
	if _, err := os.Stat(record); err == nil {
		return nil
	}
	if err := k.plugin.opts.Verify(ctx, strictKernel{k}, f); err != nil {
		return err
	}
	if record == "" {
		return nil
	}
	// Without the record, the next run verifies again: slower, never wrong.
	err := os.MkdirAll(filepath.Dir(record), 0o755)
	if err == nil {
		text := fmt.Sprintf("%s %s: %s %s\n", k.info.Name, k.info.Version, k.info.Op, f)
		err = os.WriteFile(record, []byte(text), 0o644)
	}
	if err != nil {
		if cause, ok := errors.AsType[*fs.PathError](err); ok {
			err = cause.Err // without its path, the text is the same for every kernel
		}
		k.plugin.opts.Logger.Info("kernels that were found correct cannot be remembered; the next run verifies them again",
			"folder", filepath.Dir(record), "error", err)
	}
	return nil
}

// verifiedPath names the file whose existence says that the kernel was found correct
// for the facts. The name hashes all that the outcome depends on: the cases and the
// reference are in this program. It is "" if nothing is to be remembered.
func (k *kernel) verifiedPath(f core.Facts) string {
	dir, program := k.plugin.opts.cacheDir(), k.plugin.opts.program()
	key, err := json.Marshal(struct {
		Program        string
		Protocol       int
		Checksum, Arch string
		CPU            string
		Summary        string // which names the library and the device that a kernel has found
		Op             core.Op
		Facts          core.Facts
	}{program, ProtocolVersion, k.plugin.manifest.Checksum, runtime.GOOS + "/" + runtime.GOARCH,
		cpu.Name(), k.info.Summary, k.info.Op, f})
	if dir == "" || program == "" || err != nil {
		return "" // verify in every run
	}
	sum := sha256.Sum256(key)
	return filepath.Join(dir, hex.EncodeToString(sum[:]))
}
