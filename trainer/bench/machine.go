package bench

import (
	"bufio"
	"cmp"
	"os"
	"runtime"
	"strings"

	"github.com/seed98097648/tune/internal/ceiling"
)

// Machine is where a measurement ran.
type Machine struct {
	CPU   string `json:"cpu"`   // the processor's name as the operating system gives it
	Cores int    `json:"cores"` // that this program may use
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"` // the version that built this program
	// Ceilings are its limits as they were measured for this result; zero if they were not.
	Ceilings ceiling.Ceilings `json:"ceilings"`
}

// ThisMachine describes the machine that this program runs on, without ceilings.
func ThisMachine() Machine {
	return Machine{CPU: cpuName(), Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}
}

// cpuName reads /proc/cpuinfo, or on Windows the environment.
func cpuName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return cmp.Or(os.Getenv("PROCESSOR_IDENTIFIER"), "unknown")
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, _ := strings.Cut(s.Text(), ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
