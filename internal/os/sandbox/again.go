package sandbox

import (
	"os"
	"os/exec"
	"testing"
)

// again says in the environment which test a process was started for.
const again = "TUNE_TEST_AGAIN"

// Again returns what runs a test alone in a process of its own, which prints to the test's output, and nil in that
// process. The test calls no t.Run before.
func Again(t *testing.T) *exec.Cmd {
	t.Helper()
	if os.Getenv(again) == t.Name() {
		return nil
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), again+"="+t.Name()), t.Output(), t.Output()
	return cmd
}
