package transport

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/seed98097648/tune/internal/wire"
)

// TestTerminalsObeyNoPlugin: whatever a plugin says is shown without control characters.
func TestTerminalsObeyNoPlugin(t *testing.T) {
	_, startErr := quiet(Options{}).Open(context.Background(), pluginPath(t, "colours"))
	_, callErr := open(t, quiet(Options{})).forward(t, "colour")
	words := &lastWords{}
	if _, err := words.Write([]byte("out of \x1b]0;luck\x07\r\n")); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{"hello": startErr, "nothing to see": callErr,
		"luck": errors.New(words.String())} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("error %q, want one that says %q", err, want)
		}
	}
}

func TestTheEnvironmentOfPluginsIsMinimal(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("LCX", "not a locale")
	t.Setenv("MY_DEVICE", "3")
	t.Setenv("TUNE_LINK", "nonsense")
	t.Setenv("TMPDIR", "here") // a plugin works in another folder
	here, err := filepath.Abs("here")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Env: []string{"MY_DEVICE", "MY_MODE=a=b"}}
	got := map[string]string{}
	for _, e := range o.environment(wire.LinkRPC) {
		name, value, _ := strings.Cut(e, "=")
		got[name] = value
	}
	for name, want := range map[string]string{
		"PATH": os.Getenv("PATH"), "LC_ALL": "C.UTF-8", "MY_DEVICE": "3", "MY_MODE": "a=b", "TUNE_LINK": wire.LinkRPC,
		"AWS_SECRET_ACCESS_KEY": "", "LCX": "", "TMPDIR": here,
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}
