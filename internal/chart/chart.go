// Package chart draws figures as part of a page: bars, and curves with axes, as SVG that
// stretches with the page, in light and dark colours. A page that it makes loads nothing
// and runs no script but its own, which shows the figures under the pointer; without that
// it is complete as well. No text of a page can become markup, and the page holds no style
// attributes, so that it can forbid everything but itself; see Policy.
package chart

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"strings"
)

//go:embed chart.html
var pieces string

//go:embed palette.css
var palette string

//go:embed chart.css
var style string

// Script shows the figures under the pointer, or under the cursor keys, in every plot of a
// page. It goes into a script element, or is left out.
//
//go:embed chart.js
var Script string

// Colors is how many kinds of things have colours of their own; see Class.
const Colors = 8

// Class names the style of the i-th kind of things. Other is the style of what is left.
func Class(i int) string { return fmt.Sprintf("c%d", i%Colors) }

// Other is the class of what has no colour of its own.
const Other = "other"

// Key explains a colour.
type Key struct{ Class, Name string }

// New parses a page. Besides the functions given, it can use the templates "bars", of a
// Bars, and "plot", of a Plot, and the function breakable, which lets the lines of a narrow
// screen end within a long name. Style is for its style element.
func New(name, page string, funcs template.FuncMap) (*template.Template, error) {
	own := template.FuncMap{"breakable": breakable}
	t, err := template.New(name).Funcs(own).Funcs(funcs).Parse(pieces + page)
	if err != nil {
		return nil, fmt.Errorf("chart: page %s: %w", name, err)
	}
	return t, nil
}

// Style returns the style of all pages, and more after it.
func Style(more string) template.CSS { return template.CSS(palette + style + more) }

// Policy returns a Content-Security-Policy that lets a page have this style and this script
// within it, and nothing else but images that are part of the page. Sources, if any, is
// where the script may ask for more.
func Policy(style template.CSS, script, sources string) string {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	p := "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src " + hash(string(style)) +
		"; script-src " + hash(script)
	if sources != "" {
		p += "; connect-src " + sources
	}
	return p
}

func breakable(name string) template.HTML {
	return template.HTML(strings.NewReplacer(",", ",<wbr/>", "_", "_<wbr/>", ".", ".<wbr/>", "/",
		"/<wbr/>").Replace(template.HTMLEscapeString(name)))
}
