package kerneltest

import (
	"os"
	"testing"

	osmemory "github.com/seed98097648/tune/internal/os/memory"
)

func TestMain(m *testing.M) {
	osmemory.Spend() // most tests here are of Check and Examine, which programs call that are no tests
	os.Exit(m.Run())
}
