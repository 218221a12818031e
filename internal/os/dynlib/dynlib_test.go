package dynlib

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// libc is the one library that is everywhere.
var libc = map[string]string{
	"linux": "libc.so.6", "darwin": "/usr/lib/libSystem.B.dylib", "windows": "msvcrt.dll",
}[runtime.GOOS]

func TestFunctionsAreFoundAndCalled(t *testing.T) {
	l, err := Open(libc)
	if err != nil {
		t.Skip("this system's library of C is not found: ", err)
	}
	text := []byte("seven..\x00")
	if n := l.Func("no_such_function", "strlen").Call(uintptr(unsafe.Pointer(&text[0]))); n != 7 {
		t.Errorf("strlen gives %d, want 7", n)
	}
	if f := l.Func("no_such_function"); f != 0 {
		t.Errorf("a function that is not there is at %x", f)
	}
	var scale func(x float64, power int32) float64
	if l.Func("ldexp").Bind(&scale); scale(1.5, 3) != 12 {
		t.Errorf("1.5 * 2^3 is %g", scale(1.5, 3))
	}
	if got := Text(uintptr(unsafe.Pointer(&text[0]))); got != "seven.." {
		t.Errorf("the text is %q", got)
	}
	if got := Text(0); got != "" {
		t.Errorf("no text is %q", got)
	}
}

// TestMarksAreOfFiles compares with the file that the system says is mapped.
func TestMarksAreOfFiles(t *testing.T) {
	l, err := Open(libc)
	if err != nil {
		t.Skip("this system's library of C is not found: ", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("this system does not say which files are mapped: ", err)
	}
	file := regexp.MustCompile(`/\S*/` + regexp.QuoteMeta(libc) + `\n`).Find(maps)
	b, err := os.ReadFile(strings.TrimSpace(string(file)))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.Func("ldexp").Mark(), fmt.Sprintf("%x", sha256.Sum256(b))[:8]; got != want {
		t.Errorf("the mark of %s is %q, want %q", file, got, want)
	}
	if got := Func(0).Mark(); got != "" {
		t.Errorf("what is in no file has the mark %q", got)
	}
}

func TestChoose(t *testing.T) {
	if _, err := Open(libc); err != nil {
		t.Skip("this system's library of C is not found: ", err)
	}
	path := func(l *Library) (string, error) { return l.Path, nil }
	refuse := func(l *Library) (string, error) { return "", errors.New(l.Path + " has no sound") }
	tests := []struct {
		name, named string
		candidates  []string
		use         func(*Library) (string, error)
		want        string
		errs        []string
	}{
		{"the first that can be used", "", []string{"none.so", libc}, path, libc, nil},
		{"the one that is named", libc, []string{"none.so"}, path, libc, nil},
		{"one by a path that depends on the folder", filepath.Join("lib", "none.so"), []string{libc}, path, "",
			[]string{"$TUNE_TEST is " + filepath.Join("lib", "none.so"), "by its whole path"}},
		{"one that is named and not there", "none.so", []string{libc}, path, "",
			[]string{"the library that $TUNE_TEST names cannot be used: load none.so"}},
		{"one that is named and of no use", libc, []string{libc}, refuse, "", []string{"cannot be used", "has no sound"}},
		{"none", "", []string{"none.so", libc}, refuse, "",
			[]string{"nothing sings, or name one by $TUNE_TEST; these were looked for:\n", "none.so", "has no sound"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TUNE_TEST", tt.named)
			got, err := Choose("TUNE_TEST", tt.candidates, "nothing sings", tt.use)
			if got != tt.want || (err == nil) != (tt.errs == nil) {
				t.Fatalf("%q, %v", got, err)
			}
			for _, want := range tt.errs {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want %q in it", err, want)
				}
			}
		})
	}
}
