package bench

import (
	"cmp"
	"runtime"

	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/internal/os/cpu"
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
	return Machine{CPU: cmp.Or(cpu.Name(), "unknown"), Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Go: runtime.Version()}
}
