package jinja

import "strings"

// absent is what Jinja or Python have and this package has not, because no chat template
// is known to use it. It is listed so that a template that does gets an error that says
// so, and what to write instead, rather than one as for a spelling mistake.
var absent = map[string]string{
	"the filter": "attr batch center e escape filesizeformat forceescape format groupby max min pprint random round " +
		"slice striptags sum truncate urlencode urlize wordcount wordwrap xmlattr",
	"the test": "escaped filter sameas test",
	"the name": "cycler joiner lipsum varargs kwargs",
	"the method": "casefold center copy count encode expandtabs find format format_map index isalnum isalpha " +
		"isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper ljust " +
		"maketrans partition removeprefix removesuffix rfind rindex rjust rpartition rsplit splitlines swapcase " +
		"translate zfill",
	"the attribute": "arguments caller catch_kwargs catch_varargs changed cycle depth depth0 name",
	"the tag":       "autoescape block debug do extends from import include pluralize print raw trans with",
	"the word":      "recursive ignore scoped",
}

// instead is what to write for some of these; for all else, the line has to do without.
var instead = map[string]string{
	"the filter attr":         "write object.name",
	"the filter center":       joinPieces,
	"the filter format":       joinPieces,
	"the filter groupby":      "select each group with selectattr",
	"the filter max":          "take the last item of |sort",
	"the filter min":          "take the first item of |sort",
	"the filter sum":          "add the items up in a namespace",
	"the test sameas":         "compare with ==, or write is true, is false or is none",
	"the filter e":            noHTML,
	"the filter escape":       noHTML,
	"the method format":       joinPieces,
	"the method find":         "ask with in, or cut with split",
	"the method index":        "ask with in, or cut with split",
	"the method partition":    "write split(x, 1)",
	"the method removeprefix": "ask with startswith, and write s[n:]",
	"the method removesuffix": "ask with endswith, and write s[:-n]",
	"the method rsplit":       "write split(x), and take what is needed of the list with [-1] or [:-1]",
	"the method splitlines":   "write split('\\n')",
	"the argument **":         "write each argument by its name",
	"the method ljust":        joinPieces,
	"the method rjust":        joinPieces,
	"the method zfill":        joinPieces,
	"the name joiner":         "ask for loop.first",
	"the name cycler":         "ask for loop.index0 % 2",
	"the attribute cycle":     "ask for loop.index0 % 2",
	"the tag print":           "write {{ ... }}",
	"the tag raw":             "write {{ '{{' }} for brackets",
	"the tag with":            "write {% set ... %}",
	"the tag do":              "write {% set ... %}",
	"the tag include":         oneFile,
	"the tag import":          oneFile,
	"the tag from":            oneFile,
	"the tag extends":         oneFile,
	"the tag block":           oneFile,
	"the operator **":         "multiply with *",
	"the operator %":          joinPieces,
	"the word recursive":      "write a macro that calls itself",
}

const (
	noHTML     = "write the text as it is, for a chat template makes no HTML"
	joinPieces = "join the pieces with ~"
	oneFile    = "put all of it into one file, for a chat template has no others"
)

// leftOut is what an error says of a name that is absent on purpose; it is empty for one
// that nobody has.
func leftOut(kind, name string) string {
	names := " " + absent[kind] + " "
	if !strings.Contains(names, " "+name+" ") {
		return ""
	}
	return notRendered(kind, name)
}

func notRendered(kind, name string) string {
	remedy := instead[kind+" "+name]
	if remedy == "" {
		remedy = "rewrite this line without it"
	}
	return "tune does not render " + kind + " '" + name + "' of Jinja, " +
		"which no published chat template is known to use; " + remedy
}

// mustNotBeLeftOut fails for a name that is absent on purpose. In Jinja a name that is not
// there prints as nothing: without this a template that uses one would be rendered wrong.
func mustNotBeLeftOut(kind, name string) {
	if message := leftOut(kind, name); message != "" {
		panic(failed("%s", message))
	}
}
