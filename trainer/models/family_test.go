package models

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// TestAFamilyIsOneFileThatSaysWhatItIs: of the name of its type, and with a sample whose
// every field is one that it reads.
func TestAFamilyIsOneFileThatSaysWhatItIs(t *testing.T) {
	for _, f := range Families() {
		if _, err := os.Stat(f.Type + ".go"); err != nil {
			t.Errorf("the family %s has no file of its name: %v", f.Type, err)
		}
		if f.Models == "" || f.Differs == "" && f.Type != "llama" {
			t.Errorf("%s does not say which models it is for, or what differs from llama", f.Type)
		}
		text, err := json.Marshal(f.Small())
		if err != nil {
			t.Fatal(err)
		}
		strict := json.NewDecoder(bytes.NewReader(text))
		strict.DisallowUnknownFields()
		if err := strict.Decode(f.defaults()); err != nil {
			t.Errorf("the sample of %s: %v", f.Type, err)
		}
		if _, err := Describe(text); err != nil {
			t.Errorf("the sample of %s is no model: %v", f.Type, err)
		}
	}
}

func TestAModelTypeIsRegisteredOnce(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a second llama is taken")
		}
	}()
	register(Family{Type: "llama"})
}
