package main

import "testing"

// TestNothingIsKeptOnlyIfThatIsSaid: 0 of the configuration leaves it to what is free.
func TestNothingIsKeptOnlyIfThatIsSaid(t *testing.T) {
	for text, want := range map[string]keptSize{"0": -1, "1KiB": 1024, "2GB": 2e9, "1": 1} {
		var k keptSize
		if err := k.Set(text); err != nil || k != want {
			t.Errorf("--max-kept %s is %d, %v, want %d", text, k, err, want)
		}
		if again := keptSize(0); again.Set(k.String()) != nil || again != k {
			t.Errorf("%d is written %q, which is %d", k, k.String(), again)
		}
	}
	for _, text := range []string{"", "-1", "much"} {
		if k := new(keptSize); k.Set(text) == nil || *k != 0 {
			t.Errorf("--max-kept %q is taken as %d", text, *k)
		}
	}
}
