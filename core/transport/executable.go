package transport

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/trust"
	"github.com/seed98097648/tune/internal/os/checksum"
	"github.com/seed98097648/tune/internal/os/self"
)

// executable is a plugin's file, open. Its checks, its checksum and what is started are
// all about this one file, whatever comes to lie at its path meanwhile.
type executable struct {
	*os.File
	path string // as somebody named it
	abs  string // the same, from the root
	name string // what lists of processes show
	own  bool   // it is the file of this program, see self.Is
	run  string // what to start: the open file where the system can, else the path
	sum  string // its checksum, once it is known

	notes checksum.Notes                                // which are believed
	state func(*os.File) (s checksum.State, known bool) // see platform
}

// checksums are those that this program has computed of executables, by checksum.State: a folder of plugins may be
// opened again and again, and the checksum of one takes longer than its start.
var checksums sync.Map

// openExecutable opens a file that may be a plugin, unless it cannot be one or somebody
// else could have written it.
func openExecutable(how platform, path string, notes checksum.Notes) (*executable, error) {
	abs, err := Executable(path)
	if err != nil {
		return nil, fmt.Errorf("transport: open plugin: %w", err)
	}
	file := abs
	if strings.HasPrefix(path, core.BuiltIn) && how.doorbell != nil {
		file = "/proc/self/exe" // whatever lies at its path by now
	}
	// Looked at before it is opened: opening a pipe would wait for its writer.
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("transport: %s: %w: %w", path, core.ErrIncompatible, checkExecutable(path, info))
	}
	f, err := how.open(file)
	if err != nil {
		return nil, fmt.Errorf("transport: open plugin: %w", err)
	}
	e := &executable{File: f, path: path, name: filepath.Base(strings.TrimPrefix(path, core.BuiltIn)), abs: abs, run: abs,
		state: how.state, notes: notes}
	if err := e.check(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if script, err := e.isScript(); err != nil || !script {
		e.run = how.runnable(f, abs)
	}
	return e, nil
}

// check says what is wrong with a file that must not be started.
func (e *executable) check() error {
	info, err := e.Stat()
	if err != nil {
		return fmt.Errorf("transport: open plugin: %w", err)
	}
	named := e.path
	if strings.HasPrefix(named, core.BuiltIn) {
		named = e.abs
	}
	if err := checkExecutable(named, info); err != nil {
		return fmt.Errorf("transport: %s: %w: %w", e.path, core.ErrIncompatible, err)
	}
	if err := trust.CheckFile(e.File, named); err != nil {
		return fmt.Errorf("transport: %s: %w", e.path, err)
	}
	e.own = self.Is(info)
	return nil
}

// checkExecutable says what is wrong with a file that cannot be a plugin.
func checkExecutable(path string, info os.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case core.IsExecutable(path, info.Mode()):
		return nil
	case runtime.GOOS == "windows":
		return errors.New("it is not an executable; its name does not end in .exe")
	}
	return fmt.Errorf("it is not executable; run chmod +x %s, or move it out of the plugin folder", path)
}

// isScript reports whether an interpreter is to run the file, which opens it by its path.
func (e *executable) isScript() (bool, error) {
	var start [2]byte
	_, err := e.ReadAt(start[:], 0)
	return string(start[:]) == "#!", err
}

// alias returns what to start, by a name in dir that ends as the path does: it is what
// lists of processes show.
func (e *executable) alias(dir string) (string, error) {
	if e.run == e.abs {
		return e.abs, nil
	}
	name := filepath.Join(dir, e.name)
	return name, os.Symlink(e.run, name)
}

// Executable returns the file, from the root, that a path of a plugin stands for: a built-in
// one is this program.
func Executable(path string) (string, error) {
	if strings.HasPrefix(path, core.BuiltIn) {
		exe, err := os.Executable()
		if err != nil {
			err = fmt.Errorf("what is built in is this program, started again, which cannot find its own file: %w; "+
				"mount /proc, or name a folder with plugins (--plugin-dir)", err)
		}
		return exe, err
	}
	return filepath.Abs(path)
}

// known returns the checksum of the file, "" if it must be computed, and the state of the file, if that is known.
func (e *executable) known() (sum string, state checksum.State, hasState bool) {
	if e.sum != "" {
		return e.sum, state, false
	}
	if state, hasState = e.state(e.File); !hasState {
		return "", state, false
	}
	if sum, ok := checksums.Load(state); ok {
		return sum.(string), state, true
	}
	return e.notes.Load(state), state, true
}

// checksum returns the SHA-256 of the file, hexadecimal.
func (e *executable) checksum() (string, error) {
	sum, before, hasState := e.known()
	if e.sum = sum; sum != "" {
		return sum, nil
	}
	if e.own {
		e.sum = self.Checksum()
	} else if sum, err := checksum.Of(e.File); err == nil {
		e.sum = sum
	} else {
		return "", fmt.Errorf("transport: read plugin: %w", err)
	}
	if after, still := e.state(e.File); hasState && still && after == before && e.sum != "" {
		checksums.Store(before, e.sum)
		e.notes.Store(before, e.sum)
	}
	return e.sum, nil
}

// mustHave returns an error if the file has another checksum. That of this program, which cannot change while it runs,
// may be "": it is not known yet.
func (e *executable) mustHave(checksum string) error {
	if e.own && checksum == "" {
		return nil
	}
	sum, err := e.checksum()
	if err == nil && sum != checksum {
		err = goplugin.ErrChecksumsDoNotMatch
	}
	return err
}
