package main

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer"
)

// TestNothingIsKeptOnlyIfThatIsSaid: 0 of the configuration leaves it to what is free.
func TestNothingIsKeptOnlyIfThatIsSaid(t *testing.T) {
	set := func(text string) (config trainer.Config, written string, err error) {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		addMaxKept(f, &config)
		err = f.Set("max-kept", text)
		return config, f.Lookup("max-kept").Value.String(), err
	}
	for text, want := range map[string]int64{"0": -1, "1KiB": 1024, "2GB": 2e9, "1": 1} {
		c, written, err := set(text)
		if err != nil || c.MaxKept != want {
			t.Errorf("--max-kept %s is %d, %v, want %d", text, c.MaxKept, err, want)
		}
		if again, _, err := set(written); err != nil || again.MaxKept != want {
			t.Errorf("%d is written %q, which is %d", want, written, again.MaxKept)
		}
	}
	for _, text := range []string{"", "-1", "much"} {
		if c, _, err := set(text); err == nil || c.MaxKept != 0 {
			t.Errorf("--max-kept %q is taken as %d", text, c.MaxKept)
		}
	}
}
