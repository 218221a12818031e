package dynlib

// Describe says what a library is, by its mark if it has one, and where it was found, in at most so many bytes, of
// which the end of the path is left out last: the summary of a kernel, in which plugins say it, is short.
func Describe(what, mark, path string, most int) string {
	const gap = "..."
	if mark != "" {
		what += ", " + mark
	}
	if room := most - len(what) - len(", "); len(path) > room {
		path = gap + path[len(path)-max(0, room-len(gap)):]
	}
	s := what + ", " + path
	return s[:min(len(s), most)]
}
