package chart

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
)

//go:embed picture.svg
var picture string

// frame is the box of a picture's curves, in a picture of a width and height, and the keys beside it.
type frame struct {
	Plot
	Style                     template.CSS
	Width, Height             int
	Left, Top, Across, Down   int
	KeysAt, TextAt, UnderAxis int
}

// Picture returns a plot as an SVG file of its own, with its keys on the right.
func Picture(p Plot) ([]byte, error) {
	const left, top, across, down, line = 62, 20, 560, 330, 21
	f := frame{Plot: p, Style: template.CSS(palette),
		Width: left + across + 260, Height: top + max(down, line*len(p.Keys)) + 40,
		Left: left, Top: top, Across: across, Down: down, KeysAt: left + across + 24, TextAt: left + across + 56,
		UnderAxis: top + down + 22}
	row := func(i int) int { return top + line*i + line/2 }
	t, err := template.New("picture").Funcs(template.FuncMap{"row": row}).Parse(picture)
	if err != nil {
		return nil, fmt.Errorf("chart: picture: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, f); err != nil {
		return nil, fmt.Errorf("chart: picture: %w", err)
	}
	return b.Bytes(), nil
}
