package transport

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

func TestFoldersAreThoseThatExistEachOnce(t *testing.T) {
	dir := t.TempDir()
	again, gone := filepath.Join(t.TempDir(), "again"), filepath.Join(dir, "gone")
	if err := testdata.Symlink(dir, again); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Chdir(t.TempDir()) // no checkout
	list := func(dirs ...string) string {
		return dirs[0] + string(os.PathListSeparator) + dirs[1] + string(os.PathListSeparator) + dirs[2]
	}
	t.Setenv("TUNE_PLUGIN_DIR", list(dir, again, dir))
	if got := Folders(""); !slices.Equal(got, []string{dir}) {
		t.Errorf("%v, want %s alone", got, dir)
	}
	t.Setenv("TUNE_PLUGIN_DIR", list(gone, dir, gone))
	if got := Folders(""); !slices.Equal(got, []string{gone, dir}) {
		t.Errorf("%v, want also the folder that is missing and was named", got)
	}
	if got := Folders(gone); !slices.Equal(got, []string{gone}) {
		t.Errorf("%v, want %s, which was named", got, gone)
	}

	file := filepath.Join(config, "tune", "plugins")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TUNE_PLUGIN_DIR", "")
	if got := Folders(""); len(got) != 0 {
		t.Errorf("%v, want nothing of a file that nobody named", got)
	}
	if got := Folders(file); !slices.Equal(got, []string{file}) {
		t.Errorf("%v, want the file that was named", got)
	}
}

// TestAHomeThatIsNoFolderHasNoPlugins: accounts of services have such homes.
func TestAHomeThatIsNoFolderHasNoPlugins(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData"} {
		t.Setenv(name, file)
	}
	t.Setenv("TUNE_PLUGIN_DIR", "")
	if got := Folders(""); len(got) > 0 {
		t.Errorf("%v, want none", got)
	}
	if got := Folders(file); !slices.Equal(got, []string{file}) {
		t.Errorf("%v, want %s, which was named", got, file)
	}
}

// TestAnEmptyNameIsNoFolder: DIR:$TUNE_PLUGIN_DIR adds a folder to a list that may not be there yet.
func TestAnEmptyNameIsNoFolder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TUNE_PLUGIN_DIR", dir+string(os.PathListSeparator))
	if got := SearchPath(""); got[0] != dir || slices.Contains(got, "") {
		t.Errorf("%q, want %s first, and no empty name", got, dir)
	}
}
