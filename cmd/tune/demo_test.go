package main

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// TestTheExampleKnowsItsFlags: one that is renamed, or new among those of data, would be passed over.
func TestTheExampleKnowsItsFlags(t *testing.T) {
	c := new(app).trainCommand()
	for _, name := range ofFolders {
		if c.Flags.Lookup(name) == nil {
			t.Errorf("there is no --%s", name)
		}
	}
	known := append([]string{"model", "data", "out"}, ofFolders...)
	ofData := []string{"Model and data", "Reading the data", "Preferences", "New tokens", "What is trained"}
	for _, g := range c.Groups {
		i := slices.Index(ofData, g.Title)
		if i < 0 {
			continue
		}
		ofData = slices.Delete(ofData, i, i+1)
		g.Flags.VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(known, f.Name) {
				t.Errorf("the example passes over --%s", f.Name)
			}
		})
	}
	if len(ofData) > 0 {
		t.Errorf("there are no flags %q", ofData)
	}
}
