package memory

import (
	"testing"
	"testing/fstest"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// TestLimits reads trees as containers, systemd and old kernels have them, on
// a machine with 16 GiB of which 10 can be made free, and 2 GiB of swap.
func TestLimits(t *testing.T) {
	const meminfo = "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:   10485760 kB\nSwapTotal:       " +
		"2097152 kB\n"
	for name, tc := range map[string]struct {
		files            map[string]string
		available, total int64
	}{
		"none": {nil, 10 * gib, 18 * gib},
		"version 2, in a container": {map[string]string{
			"proc/self/cgroup":             "0::/\n",
			"sys/fs/cgroup/memory.max":     "4294967296\n",
			"sys/fs/cgroup/memory.current": "1073741824\n",
			"sys/fs/cgroup/memory.stat":    "anon 5\ninactive_file 536870912\n",
		}, 3*gib + gib/2, 6 * gib},
		"version 2, without swap": {map[string]string{
			"sys/fs/cgroup/memory.max": "4294967296", "sys/fs/cgroup/memory.current": "0", "sys/fs/cgroup/memory.swap.max": "0",
		}, 4 * gib, 4 * gib},
		"version 2, no limit": {map[string]string{
			"proc/self/cgroup":         "0::/\n",
			"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "5\n",
		}, 10 * gib, 18 * gib},
		"version 2, the limit is two levels up": {map[string]string{
			"proc/self/cgroup": "0::/user.slice/user-1.slice/run.scope\n",
			"sys/fs/cgroup/user.slice/user-1.slice/memory.max":     "max",
			"sys/fs/cgroup/user.slice/user-1.slice/memory.current": "7",
			"sys/fs/cgroup/user.slice/memory.max":                  "2147483648",
			"sys/fs/cgroup/user.slice/memory.current":              "1048576",
		}, 2*gib - mib, 4 * gib},
		"version 2, the tightest of several levels counts": {map[string]string{
			"proc/self/cgroup":             "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "6442450944", "sys/fs/cgroup/a/b/memory.current": "0",
			"sys/fs/cgroup/a/memory.max": "8589934592", "sys/fs/cgroup/a/memory.current": "7516192768",
		}, gib, 8 * gib},
		"version 2, slowed down before it reaches its limit": {map[string]string{
			"sys/fs/cgroup/memory.max": "8589934592", "sys/fs/cgroup/memory.high": "4294967296",
			"sys/fs/cgroup/memory.current": "1073741824",
		}, 3 * gib, 6 * gib},
		"version 2, slowed down without a limit": {map[string]string{
			"sys/fs/cgroup/memory.max": "max", "sys/fs/cgroup/memory.high": "4294967296", "sys/fs/cgroup/memory.current": "0",
		}, 4 * gib, 6 * gib},
		"version 2, more in use than allowed": {map[string]string{
			"sys/fs/cgroup/memory.max": "1073741824", "sys/fs/cgroup/memory.current": "2147483648",
		}, 1, 3 * gib},
		"version 1, in a container that shows the path outside": {map[string]string{
			"proc/self/cgroup":                                 "12:memory:/docker/0123\n3:cpu,cpuacct:/docker/0123\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":       "4294967296\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes":       "2147483648\n",
			"sys/fs/cgroup/memory/memory.memsw.limit_in_bytes": "5368709120\n",
			"sys/fs/cgroup/memory/memory.stat":                 "inactive_file 1\ntotal_inactive_file 1073741824\n",
		}, 3 * gib, 5 * gib},
		"version 1, beside another controller, nested": {map[string]string{
			"proc/self/cgroup": "4:hugetlb,memory:/batch/job\n",
			"sys/fs/cgroup/memory/batch/job/memory.limit_in_bytes": "9223372036854771712",
			"sys/fs/cgroup/memory/batch/job/memory.usage_in_bytes": "1",
			"sys/fs/cgroup/memory/batch/memory.limit_in_bytes":     "3221225472",
			"sys/fs/cgroup/memory/batch/memory.usage_in_bytes":     "0",
		}, 3 * gib, 5 * gib},
		"version 1, no limit": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "1048576",
			"sys/fs/cgroup/memory/memory.stat":           "total_inactive_file 999999999999\n",
		}, 10 * gib, 18 * gib},
		"version 1, no limit in an old kernel's words": {map[string]string{
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "18446744073709551615",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "1",
		}, 10 * gib, 18 * gib},
		"addresses are limited": {map[string]string{
			"proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units     \n" +
				"Max address space         6442450944           unlimited            bytes     \n",
			"proc/self/status":             "Name:\ttune\nVmSize:\t 1048576 kB\n",
			"sys/fs/cgroup/memory.max":     "6442450944",
			"sys/fs/cgroup/memory.current": "0",
		}, 5 * gib, 8 * gib},
		"addresses are not limited": {map[string]string{
			"proc/self/limits": "Max address space         unlimited            unlimited            bytes     \n",
			"proc/self/status": "VmSize:\t 1048576 kB\n",
		}, 10 * gib, 18 * gib},
		"nonsense": {map[string]string{
			"proc/self/cgroup":         "\n::\n0::../../..\nmemory\n1:memory:no/slash",
			"sys/fs/cgroup/memory.max": "lots", "sys/fs/cgroup/memory.current": "-5",
		}, 10 * gib, 18 * gib},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{"proc/meminfo": &fstest.MapFile{Data: []byte(meminfo)}}
			for path, text := range tc.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			if n := available(root); n != tc.available {
				t.Errorf("available: %d MiB, want %d", n/mib, tc.available/mib)
			}
			if n := total(root); n != tc.total {
				t.Errorf("total: %d MiB, want %d", n/mib, tc.total/mib)
			}
		})
	}
}

// TestMemoryWithoutProc: the limit of a group is known all the same, and nothing is else.
func TestMemoryWithoutProc(t *testing.T) {
	if n := available(fstest.MapFS{}); n != 0 {
		t.Errorf("%d bytes available, and nothing tells", n)
	}
	root := fstest.MapFS{
		"sys/fs/cgroup/memory.max":     &fstest.MapFile{Data: []byte("1073741824")},
		"sys/fs/cgroup/memory.current": &fstest.MapFile{Data: []byte("0")},
	}
	if a, all := available(root), total(root); a != gib || all != gib {
		t.Errorf("%d bytes available of %d, want a GiB", a, all)
	}
	if Total() < 64*mib {
		t.Errorf("this machine has %d bytes", Total())
	}
}
