package kerneltest

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	collectRarely() // most tests here are of Check and Examine, which programs call that are no tests
	os.Exit(m.Run())
}
