package tokenizer

import "slices"

// behavior turns the spans of a pattern into those of the pieces: it decides what
// becomes of the matches.
type behavior func([]span) []span

// behaviors are the values of the field "behavior". On the text a--b cut at "-"
// they give
//
//	Removed             a b
//	Isolated            a - - b
//	MergedWithPrevious  a- - b
//	MergedWithNext      a - -b
//	Contiguous          a -- b
var behaviors = map[string]behavior{
	"Removed":            removed,
	"Isolated":           isolated,
	"MergedWithPrevious": mergedWithPrevious,
	"MergedWithNext":     mergedWithNext,
	"Contiguous":         contiguous,
}

func removed(spans []span) []span {
	return slices.DeleteFunc(spans, func(s span) bool { return s.match })
}

func isolated(spans []span) []span { return spans }

func mergedWithPrevious(spans []span) []span {
	return fuse(spans, func(before, s span) bool { return s.match && !before.match })
}

func mergedWithNext(spans []span) []span {
	// Seen from the end a match belongs to the span after it; of several matches
	// in a row only the last does.
	return fuse(spans, func(before, s span) bool { return before.match && !s.match })
}

func contiguous(spans []span) []span {
	return fuse(spans, func(before, s span) bool { return s.match == before.match })
}

// fuse joins each span to its neighbour before it where join says so.
func fuse(spans []span, join func(before, s span) bool) []span {
	out := spans[:0]
	for i, s := range spans {
		if i > 0 && join(spans[i-1], s) {
			out[len(out)-1].end = s.end
			continue
		}
		out = append(out, s)
	}
	return out
}
