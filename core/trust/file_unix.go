//go:build unix

package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/seed98097648/tune/core"
)

// Bits of a mode, and who is trusted besides the user.
const (
	groupWrites = 0o020
	othersWrite = 0o002
	rootID      = 0
)

// remedyFolder helps who may not change the file.
const remedyFolder = "or copy the plugin to a folder of yours"

// CheckFile refuses a plugin's file that somebody else could have written. f is the open
// file and path the name that it was opened by, which may be a symbolic link.
//
// The file and the folder that holds it must belong to the user or to root, and nobody
// else may write to them: not everybody, and no group but root's or the private group
// that some systems make for each user. The same holds for the folder that a link leads
// to, and a folder further up must not be writable by everybody, unless the sticky bit
// keeps them from renaming what is not theirs, as in /tmp. The error wraps
// core.ErrUntrusted and gives the remedy. On Windows nothing is checked.
func CheckFile(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	me := current()
	if err := me.check(path, info); err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	if err := me.checkFolders(path, false); err != nil || target == path {
		return err
	}
	return me.checkFolders(target, true)
}

// identity is who runs this process, as far as files know.
type identity struct {
	user, group  uint32
	privateGroup bool // the group is that of no other user
}

func current() identity {
	me := identity{user: uint32(os.Geteuid()), group: uint32(os.Getegid())}
	me.privateGroup = me.user == me.group || groupNamedAfterUser(me)
	return me
}

// groupNamedAfterUser reports the convention of systems that make a group for each user.
func groupNamedAfterUser(me identity) bool {
	u, err := user.LookupId(decimal(me.user))
	if err != nil {
		return false
	}
	g, err := user.LookupGroupId(decimal(me.group))
	return err == nil && g.Name == u.Username
}

// check looks at the owner and the mode of one file or folder.
func (me identity) check(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("trust: %s: its owner is unknown", path)
	}
	what := "the file"
	if info.IsDir() {
		what = "the folder"
	}
	mode := info.Mode()
	switch {
	case stat.Uid != me.user && stat.Uid != rootID:
		return refuse("%s %s belongs to user %s, who could change it; run chown %d %s, %s",
			what, path, userName(stat.Uid), me.user, path, remedyFolder)
	case mode&othersWrite != 0 && mode&fs.ModeSticky != 0: // /tmp is to stay so
		return refuse("everybody can write to %s %s; copy the plugin to a folder of yours", what, path)
	case mode&othersWrite != 0:
		return refuse("everybody can write to %s %s; run chmod o-w %s, %s", what, path, path, remedyFolder)
	case mode&groupWrites != 0 && stat.Gid != rootID && !(stat.Gid == me.group && me.privateGroup):
		return refuse("group %s can write to %s %s; run chmod g-w %s, %s", groupName(stat.Gid), what, path, path,
			remedyFolder)
	}
	return nil
}

// checkFolders looks at the folder that holds a file, which may be one like /tmp if
// sticky is true, and at those above it.
func (me identity) checkFolders(path string, sticky bool) error {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	if !sticky || info.Mode()&fs.ModeSticky == 0 {
		if err := me.check(dir, info); err != nil {
			return err
		}
	}
	for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if errors.Is(err, fs.ErrPermission) {
			continue // it can be passed through and not be looked at
		}
		if err != nil {
			return fmt.Errorf("trust: %w", err)
		}
		if info.Mode()&othersWrite != 0 && info.Mode()&fs.ModeSticky == 0 {
			return refuse("everybody can rename what is in the folder %s, which the plugin is below; run chmod o-w %s", parent,
				parent)
		}
	}
	return nil
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{core.ErrUntrusted}, args...)...)
}

// userName returns the name of a user, or the number of one that has none.
func userName(id uint32) string {
	if u, err := user.LookupId(decimal(id)); err == nil {
		return u.Username
	}
	return decimal(id)
}

// groupName returns the name of a group, or the number of one that has none.
func groupName(id uint32) string {
	if g, err := user.LookupGroupId(decimal(id)); err == nil {
		return g.Name
	}
	return decimal(id)
}

func decimal(id uint32) string { return strconv.FormatUint(uint64(id), 10) }
