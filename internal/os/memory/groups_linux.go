package memory

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// group is a control group that limits memory, in bytes.
type group struct {
	limit int64
	swap  int64 // besides; a large number for no limit
	used  int64
	files int64 // of what is used, what files have left in memory and nobody needs
}

// groupFiles are the names of one version of control groups: the folder where it is mounted,
// and files in the folder of a group.
type groupFiles struct {
	mount, limit, used, stat, files string
	high                            string // the limit above which the group is slowed down until it stands still
	swap                            string // the limit of swap
	both                            string // the limit of memory and swap together
}

var (
	version1 = groupFiles{mount: "sys/fs/cgroup/memory", limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes",
		stat: "memory.stat", files: "total_inactive_file ", both: "memory.memsw.limit_in_bytes"}
	version2 = groupFiles{mount: "sys/fs/cgroup", limit: "memory.max", used: "memory.current",
		stat: "memory.stat", files: "inactive_file ", high: "memory.high", swap: "memory.swap.max"}
)

// unlimited is more than a limit that means something: version 1 writes a number close to
// the largest for none.
const unlimited = 1 << 60

// limitedGroups returns the groups of this process that have a limit: its own, and those
// above, of which each counts.
func limitedGroups(root fs.FS) []group {
	paths := map[string]string{version1.mount: "/", version2.mount: "/"} // where a container sees its own group
	text, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		// "number:controllers:path", see cgroups(7); version 2 has neither number nor controllers.
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		if f[1] == "" {
			paths[version2.mount] = f[2]
		} else if slices.Contains(strings.Split(f[1], ","), "memory") {
			paths[version1.mount] = f[2]
		}
	}
	var all []group
	for _, v := range []groupFiles{version1, version2} {
		// A path may be one outside the container, of which only the top is mounted.
		for p := path.Clean("/" + paths[v.mount]); ; p = path.Dir(p) {
			if g, ok := v.read(root, path.Join(v.mount, p)); ok {
				all = append(all, g)
			}
			if p == "/" {
				break
			}
		}
	}
	return all
}

// read returns the group of a folder, if it has a limit.
func (v groupFiles) read(root fs.FS, dir string) (group, bool) {
	limit, ok := number(root, path.Join(dir, v.limit))
	used, ok2 := number(root, path.Join(dir, v.used))
	if v.high != "" {
		if high, ok := number(root, path.Join(dir, v.high)); ok {
			limit = min(limit, high)
		}
	}
	if !ok || !ok2 || limit >= unlimited {
		return group{}, false
	}
	g := group{limit: limit, used: used, swap: unlimited, files: field(root, path.Join(dir, v.stat), v.files)}
	if v.swap != "" {
		if swap, ok := number(root, path.Join(dir, v.swap)); ok {
			g.swap = swap
		}
	} else if both, ok := number(root, path.Join(dir, v.both)); ok {
		g.swap = max(both-limit, 0)
	}
	return g, true
}

// number reads a file that holds a number, or "max" for no limit.
func number(root fs.FS, name string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	word := strings.TrimSpace(string(text))
	if word == "max" {
		return unlimited, true
	}
	n, err := strconv.ParseUint(word, 10, 64)
	return int64(min(n, unlimited)), err == nil
}
