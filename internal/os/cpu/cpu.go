// Package cpu says which processor this is.
package cpu

import (
	"bufio"
	"io"
	"os"
	"strings"
)

// Name returns the processor's name where the operating system tells it in a file or in
// the environment, else "".
func Name() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return os.Getenv("PROCESSOR_IDENTIFIER") // Windows
	}
	defer f.Close()
	return modelName(f)
}

// modelName finds the name in the text of /proc/cpuinfo.
func modelName(cpuinfo io.Reader) string {
	for s := bufio.NewScanner(cpuinfo); s.Scan(); {
		if key, value, _ := strings.Cut(s.Text(), ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
