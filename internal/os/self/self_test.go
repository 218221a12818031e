package self

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"
)

func TestChecksumIsThatOfTheFile(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(b); Checksum() != hex.EncodeToString(sum[:]) {
		t.Errorf("%s, want %x", Checksum(), sum)
	}
}
