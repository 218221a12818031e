package trust

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// header is the first line of a lock file; the number is the version of the format.
const header = "tune kernels lock 1"

// advice follows the header, for who finds the file.
const advice = `# Plugins that tune may start: name, version, checksum and path of each.
# Keep this file under version control. "tune kernels lock --update-lock" rewrites it.
`

// remedyText says what to do about a file that cannot be read.
const remedyText = "restore the file from version control, or remove it and run \"tune kernels lock\""

// Format writes entries as the text of a lock file: one line for each, sorted, so that a
// difference between two versions of the file is a difference between plugins.
func Format(entries []Entry) []byte {
	var b bytes.Buffer
	b.WriteString(header + "\n" + advice)
	for _, e := range entries {
		fmt.Fprintf(&b, "%s %s sha256:%s %s\n", word(e.Name), word(e.Version), e.SHA256, word(e.Path))
	}
	return b.Bytes()
}

// Parse reads the text of a lock file. Errors name the line and the remedy.
func Parse(text []byte) ([]Entry, error) {
	first, rest, _ := strings.Cut(string(text), "\n")
	if strings.TrimRight(first, "\r") != header {
		return nil, fmt.Errorf("line 1 is %.40q, not %q: it is no lock file of this version; %s", first, header, remedyText)
	}
	var entries []Entry
	paths := map[string]int{} // the line of each
	number := 1
	for line := range strings.Lines(rest) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		e, err := parseEntry(line)
		if err == nil && paths[e.Path] != 0 {
			err = fmt.Errorf("the path %q is on line %d already", e.Path, paths[e.Path])
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w; %s", number, err, remedyText)
		}
		paths[e.Path] = number
		entries = append(entries, e)
	}
	sortEntries(entries)
	return entries, nil
}

// parseEntry reads one line.
func parseEntry(line string) (e Entry, err error) {
	var sum string
	fields := []struct {
		name string
		to   *string
	}{{"name", &e.Name}, {"version", &e.Version}, {"checksum", &sum}, {"path", &e.Path}}
	for i, f := range fields {
		if i > 0 {
			var ok bool
			if line, ok = strings.CutPrefix(line, " "); !ok {
				return e, fmt.Errorf("the %s is missing", f.name)
			}
		}
		if *f.to, line, err = cutWord(line); err != nil {
			return e, fmt.Errorf("the %s: %w", f.name, err)
		}
	}
	if !checksum.MatchString(sum) {
		return e, fmt.Errorf("the checksum %.80q is not sha256: and 64 digits of lower-case hexadecimal", sum)
	}
	e.SHA256 = strings.TrimPrefix(sum, "sha256:")
	switch {
	case line != "":
		return e, fmt.Errorf("%.40q follows the path", line)
	case e.Name == "" || e.Path == "":
		return e, errors.New("the name or the path is empty")
	}
	return e, nil
}

// checksum is the one form in which checksums are written.
var checksum = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// word writes a text so that cutWord reads it: quoted as in Go unless it is plain.
func word(s string) string {
	if isPlain(s) {
		return s
	}
	return strconv.Quote(s)
}

// isPlain reports whether a text needs no quotes.
func isPlain(s string) bool {
	special := func(r rune) bool {
		return r == '"' || r == '#' || r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r)
	}
	return s != "" && strings.IndexFunc(s, special) < 0
}

// cutWord reads the word that a line begins with.
func cutWord(line string) (w, rest string, err error) {
	if strings.HasPrefix(line, `"`) {
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return "", "", fmt.Errorf("%.40s lacks its closing quote", line)
		}
		w, err = strconv.Unquote(quoted)
		return w, line[len(quoted):], err
	}
	if i := strings.IndexByte(line, ' '); i >= 0 {
		w, rest = line[:i], line[i:]
	} else {
		w = line
	}
	if !isPlain(w) {
		return "", "", fmt.Errorf("%.40q is not a word", w)
	}
	return w, rest, nil
}
