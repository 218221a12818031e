package shm

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// roleVar makes the test binary play the other process.
const roleVar = "SHM_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVar)
	if role == "" {
		os.Exit(m.Run())
	}
	play := platformRoles()[role]
	if role == "paths" {
		play = sharePaths
	}
	for _, line := range play() {
		fmt.Println(line)
	}
}

const childSize = 1 << 20

// sharePaths reads the host's region and writes its own, both opened by path. Like
// every role it returns lines of "action: outcome".
func sharePaths() []string {
	host, err := MapPath(os.Getenv("SHM_HOST"), childSize, false)
	if err != nil {
		return []string{"map host: " + err.Error()}
	}
	own, err := MapPath(os.Getenv("SHM_OWN"), childSize, true)
	if err != nil {
		return []string{"map own: " + err.Error()}
	}
	read := string(host.Bytes()[:5])
	copy(own.Bytes(), read)
	return []string{"read host: " + read, fmt.Sprint("close: ", host.Close(), own.Close())}
}

// child runs the test binary in a role and returns what each of its actions gave.
func child(t *testing.T, role string, files []*os.File, env ...string) map[string]string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), roleVar+"="+role), env...)
	cmd.ExtraFiles = files
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("child: %v\n%.1000s", err, out)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(out)) {
		action, outcome, _ := strings.Cut(strings.TrimSpace(line), ": ")
		got[action] = outcome
	}
	return got
}

// TestTwoProcessesShareByPath is the way of systems without descriptor passing.
func TestTwoProcessesShareByPath(t *testing.T) {
	host, err := NewFile("host", childSize, HostOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	own, err := NewFile("own", childSize, Shared)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	copy(host.Bytes(), "hello")
	got := child(t, "paths", nil, "SHM_HOST="+host.Path(), "SHM_OWN="+own.Path())
	if got["read host"] != "hello" || got["close"] != "<nil> <nil>" {
		t.Errorf("child says %v", got)
	}
	if s := string(own.Bytes()[:5]); s != "hello" {
		t.Errorf("the child's region holds %q", s)
	}
}
