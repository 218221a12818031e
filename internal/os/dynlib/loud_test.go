//go:build unix

package dynlib

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// loud prints while it is loaded.
const loud = `#include <unistd.h>
__attribute__((constructor)) static void greet(void) { write(1, "hello\n", 6); }
`

// TestWhatALibraryPrintsIsNoHandshake: it goes to standard error while it is loaded, and what the program prints
// afterwards to standard output again.
func TestWhatALibraryPrintsIsNoHandshake(t *testing.T) {
	const variable = "TUNE_TEST_LOUD"
	if path := os.Getenv(variable); path != "" { // the program
		if _, err := Open(path); err != nil {
			t.Fatal(err)
		}
		fmt.Println("shaking hands")
		return
	}
	source := filepath.Join(t.TempDir(), "loud.c")
	if err := os.WriteFile(source, []byte(loud), 0o600); err != nil {
		t.Fatal(err)
	}
	library := strings.TrimSuffix(source, ".c") + ".so"
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Skipf("no library can be made here: %v: %s", err, out)
	}
	program := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	program.Env = append(os.Environ(), variable+"="+library)
	var stdout, stderr bytes.Buffer
	program.Stdout, program.Stderr = &stdout, &stderr
	if err := program.Run(); err != nil {
		t.Fatalf("%v: %s%s", err, &stdout, &stderr)
	}
	if !strings.HasPrefix(stdout.String(), "shaking hands\n") || !strings.Contains(stderr.String(), "hello") {
		t.Errorf("standard output has %q, standard error %q", &stdout, &stderr)
	}
}
