package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestSizesHaveUnits(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "512B": 512, "64K": 64 << 10, "1.5GiB": 3 << 29, "2 GB": 2e9, "1MiB": 1 << 20, "3M": 3 << 20, "10KB": 10e3,
		"1TiB": 1 << 40,
	} {
		var b byteSize
		if err := b.Set(text); err != nil || b.bytes != want || b.String() != text {
			t.Errorf("%q is %d (%v), want %d", text, b.bytes, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "0", "-1GiB", "0.1B", "NaN", "Inf", "1e30", "1 PB", "two"} {
		var b byteSize
		if err := b.Set(text); err == nil {
			t.Errorf("%q is taken for %d bytes", text, b.bytes)
		}
	}
}

func TestGivenFlagsOfPluginsAreSaidAgain(t *testing.T) {
	for _, args := range [][]string{nil, {
		"--plugin-dir", "my plugins", "--lock", "my.lock", "--plugin-env", "A", "--plugin-env", "B=c d",
		"--plugin-memory", "2GiB", "--plugin-cpus", "3", "--call-timeout", "1m30s",
	}} {
		var p pluginFlags
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		p.addCalls(f)
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		want := strings.NewReplacer("my plugins", "'my plugins'", "B=c d", "'B=c d'").Replace(strings.Join(args, " "))
		if got := strings.TrimPrefix(p.given(), " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
