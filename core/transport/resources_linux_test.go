package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/os/sandbox"
)

// hostWithFewFiles opens a plugin with a limit of open files that gets tighter, and prints every error.
func hostWithFewFiles() {
	for n := uint64(40); n >= 8; n-- {
		if err := sandbox.LimitFiles(n); err != nil {
			fmt.Println("cannot be made here:", err)
			return
		}
		p, err := quiet(Options{}).Open(context.Background(), os.Args[1])
		if err == nil {
			err = errors.Join(errors.New("opened"), p.Close())
		}
		fmt.Printf("%d: %s\n", n, strings.ReplaceAll(err.Error(), "\n", " "))
	}
}

// TestTooFewFilesAreWhatAnErrorSays, wherever the limit is met: no other folder for temporary files would help, and
// the plugin is one.
func TestTooFewFilesAreWhatAnErrorSays(t *testing.T) {
	cmd := exec.Command(pluginPath(t, "host_with_few_files"), pluginPath(t, "plugin"))
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if strings.HasPrefix(string(out), "cannot be made here") {
		t.Skipf("%s", out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	opened, refused := 0, 0
	for line := range strings.Lines(string(out)) {
		switch {
		case strings.HasSuffix(line, ": opened\n"):
			opened++
		case strings.Contains(line, "ulimit -n") && !strings.Contains(line, "TMPDIR") && !strings.Contains(line, "move it"):
			refused++
		default:
			t.Errorf("with %s", line)
		}
	}
	if opened == 0 || refused == 0 {
		t.Errorf("%d opened, %d refused: %s", opened, refused, out)
	}
}
