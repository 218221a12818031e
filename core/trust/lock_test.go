package trust

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/core"
)

// sum returns a checksum of one repeated digit.
func sum(digit string) string { return strings.Repeat(digit, 64) }

func TestParseReadsWhatFormatWrites(t *testing.T) {
	want := []Entry{
		{"fast", "1.2.3", sum("a"), "bin/plugins/fast"},
		{"fast", "1.2.3", sum("b"), "bin/plugins/fast 2"},
		{"odd", "", sum("0"), "/opt/\"odd\"\n#"},
		{"ωmega", "v1 beta", sum("9"), "ω"},
	}
	text := Format(want)
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if n := bytes.Count(text, []byte("\n")); n != 3+len(want) {
		t.Errorf("%d lines, want one for each plugin:\n%s", n, text)
	}
}

func TestParseSortsAndPassesOverComments(t *testing.T) {
	got, err := Parse([]byte(header + "\r\n\n# a comment\nb 1 sha256:" + sum("1") + " p/b\r\na 1 sha256:" + sum("2") +
		" p/a\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Name != "a" || got[1].Path != "p/b" {
		t.Errorf("%v", got)
	}
}

func TestParseNamesTheLineAndTheRemedy(t *testing.T) {
	good := "a 1 sha256:" + sum("1") + " p/a\n"
	cases := map[string]struct{ text, want string }{
		"empty":             {"", `line 1 is "", not "tune kernels lock 1"`},
		"another file":      {"{}\n", `line 1 is "{}"`},
		"another version":   {"tune kernels lock 2\n" + good, `line 1 is "tune kernels lock 2"`},
		"merge conflict":    {header + "\n" + good + "<<<<<<< HEAD\n", "line 3: the checksum is missing"},
		"cut off":           {header + "\na 1 sha256:12\n", "line 2: the path is missing"},
		"no checksum":       {header + "\na 1 md5:12 p\n", `line 2: the checksum "md5:12" is not sha256:`},
		"short checksum":    {header + "\na 1 sha256:12 p\n", "is not sha256: and 64 digits"},
		"upper case":        {header + "\na 1 sha256:" + sum("A") + " p\n", "lower-case"},
		"two blanks":        {header + "\na  1 sha256:" + sum("1") + " p\n", "line 2: the version"},
		"too many words":    {header + "\na 1 sha256:" + sum("1") + " p q\n", `line 2: " q" follows the path`},
		"an open quote":     {header + "\n" + good + "\"b 1 sha256:" + sum("1") + " p\n", "line 3: the name: \"b 1"},
		"a path twice":      {header + "\n" + good + good, `line 3: the path "p/a" is on line 2 already`},
		"an empty name":     {header + "\n\"\" 1 sha256:" + sum("1") + " p\n", "the name or the path is empty"},
		"a control letter":  {header + "\na\x1b[2J 1 sha256:" + sum("1") + " p\n", "line 2: the name:"},
		"text after quotes": {header + "\n\"a\"b 1 sha256:" + sum("1") + " p\n", "line 2: the version is missing"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			entries, err := Parse([]byte(tc.text))
			if err == nil {
				t.Fatalf("read %v", entries)
			}
			for _, want := range []string{tc.want, remedyText} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

// FuzzParse: nothing makes the parser fail but with an error, and what it accepts it
// writes and reads again as the same.
func FuzzParse(f *testing.F) {
	f.Add(Format([]Entry{{"fast", "1.2.3", sum("a"), "bin/fast"}, {"odd", "v 1", sum("0"), "a \"b\"\n"}}))
	f.Add([]byte(header + "\n\"a\\x00\" \"\" sha256:" + sum("1") + " \"\\u202e\"\n"))
	f.Add([]byte("<<<<<<< HEAD\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(Format(entries))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, Format(entries))
		}
		if d := cmp.Diff(entries, again); d != "" {
			t.Errorf("(-first +second):\n%s", d)
		}
	})
}

func TestFindReadsTheLockThatCounts(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(FileEnv, "")
	write := func(path, name string) {
		t.Helper()
		if err := os.WriteFile(path, Format([]Entry{{name, "1", sum("1"), "p"}}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := func(explicit string) string {
		t.Helper()
		l, err := Find(explicit)
		if err != nil {
			t.Fatal(err)
		}
		if l == nil {
			return "none"
		}
		return l.File + " of " + l.Entries[0].Name
	}
	if got := found(""); got != "none" {
		t.Errorf("an empty folder has a lock: %s", got)
	}
	write(DefaultFile, "default")
	if got := found(""); got != DefaultFile+" of default" {
		t.Error(got)
	}
	t.Setenv(FileEnv, "other.lock")
	if _, err := Find(""); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "other.lock") {
		t.Errorf("a lock that the environment names is missing: %v", err)
	}
	write("other.lock", "named")
	if got := found(""); got != "other.lock of named" {
		t.Error(got)
	}
	if got := found(DefaultFile); got != DefaultFile+" of default" {
		t.Error(got)
	}
	if got := found(Off); got != "none" {
		t.Error(got)
	}
	if _, err := Find("absent.lock"); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "lock file absent.lock: file does not exist") {
		t.Errorf("%v", err)
	}
}

func TestReadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "my.lock")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path+": line 1") {
		t.Errorf("%v", err)
	}
}

func TestWriteReplacesTheWholeFile(t *testing.T) {
	dir := t.TempDir()
	l, err := New(filepath.Join(dir, DefaultFile), []core.Manifest{
		{Name: "b", Version: "2", Checksum: sum("2"), Path: filepath.Join(dir, "bin", "b")},
		{Name: "a", Version: "1", Checksum: sum("1"), Path: filepath.Join(filepath.Dir(dir), "elsewhere")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.File, []byte(strings.Repeat("old\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(); err != nil {
		t.Fatal(err)
	}
	got, err := Read(l.File)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(l, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got.Entries[1].Path != "bin/b" || !filepath.IsAbs(filepath.FromSlash(got.Entries[0].Path)) {
		t.Errorf("paths are relative to the lock if they are below it, and only then: %v", got.Entries)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("left behind: %v %v", files, err)
	}
	l.File = filepath.Join(dir, "absent", "x")
	if err := l.Write(); err == nil || !strings.Contains(err.Error(), l.File) {
		t.Errorf("written into a folder that is not there: %v", err)
	}
}

func TestAllowGoesByTheChecksum(t *testing.T) {
	dir := t.TempDir()
	l := &Lock{File: filepath.Join(dir, DefaultFile), Flags: " --lock my.lock --plugin-dir bin", Entries: []Entry{
		{"a", "1.0", sum("a"), "bin/a"}, {"b", "2.0", sum("b"), "bin/b"},
	}}
	in := func(path string) string { return filepath.Join(dir, filepath.FromSlash(path)) }
	cases := map[string]struct {
		path, sum string
		want      []string // nil for allowed
	}{
		"as locked": {in("bin/a"), sum("a"), nil},
		"moved":     {in("other/x"), sum("a"), nil},
		"changed": {in("bin/a"), sum("c"),
			[]string{"has changed", "a 1.0 with sha256 aaaaaaaaaaaa", "the file has cccccccccccc", "--update-lock"}},
		"changed, elsewhere": {in("x/b"), sum("c"), []string{"has changed", "b 2.0 with sha256 bbbbbbbbbbbb"}},
		"unknown": {in("bin/c"), sum("c"),
			[]string{"is not in", "cccccccccccc", "--update-lock --lock my.lock --plugin-dir bin\""}},
		"the file name of no": {in("bin/ab"), sum("c"), []string{"is not in"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := l.Allow(tc.path, tc.sum)
			if tc.want == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			for _, want := range append(tc.want, tc.path) {
				if !errors.Is(err, core.ErrUntrusted) || !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestAllowNameKeepsAPluginFromTakingAnother(t *testing.T) {
	l := &Lock{File: DefaultFile, Entries: []Entry{{"a", "1", sum("a"), "a"}, {"b", "1", sum("b"), "b"}}}
	if err := l.AllowName("p", sum("a"), "a"); err != nil {
		t.Error(err)
	}
	err := l.AllowName("p", sum("a"), "b")
	if !errors.Is(err, core.ErrUntrusted) ||
		!strings.Contains(err.Error(), `calls itself "b", but tune-kernels.lock locks it as a`) {
		t.Errorf("%v", err)
	}
}

func TestChangesSayWhatIsAddedRemovedChangedAndMoved(t *testing.T) {
	old := []Entry{{"a", "1", sum("1"), "p/a"}, {"b", "1", sum("7"), "p/b"}, {"gone", "1", sum("2"), "p/gone"},
		{"moved", "1", sum("3"), "p/moved"}, {"same", "1", sum("4"), "p/same"}}
	now := []Entry{{"a", "2", sum("5"), "p/a"}, {"b", "1", sum("8"), "p/b"}, {"moved", "1", sum("3"), "q/moved"},
		{"new", "1", sum("6"), "p/new"}, {"same", "1", sum("4"), "p/same"}}
	want := []string{
		"changed  a 1 111111111111 -> 2 555555555555",
		"changed  b 1 777777777777 -> 888888888888",
		"removed  gone 1 222222222222",
		"moved    moved 1 333333333333, from p/moved to q/moved",
		"added    new 1 666666666666",
	}
	var got []string
	for _, c := range Changes(old, now) {
		got = append(got, c.String())
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if c := Changes(now, now); c != nil {
		t.Errorf("a lock differs from itself: %v", c)
	}
}
