package main

import "testing"

// TestTheExampleKnowsItsFlags: a flag that is renamed would be passed over again.
func TestTheExampleKnowsItsFlags(t *testing.T) {
	c := new(app).trainCommand()
	for _, name := range ofFolders {
		if c.Flags.Lookup(name) == nil {
			t.Errorf("there is no --%s", name)
		}
	}
}
