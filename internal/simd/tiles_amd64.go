//go:build !noasm

package simd

import "sync"

// tiles returns the unit for tiles, nil where this process may not use one. To ask the operating system
// changes what it does for the process, so it waits until somebody wants to know.
var tiles = sync.OnceValue(func() *tileUnit {
	if !instructionSets[0].there() || !allowTiles() {
		return nil
	}
	return &tilesAMX
})

var tilesAMX = tileUnit{
	multiply: [2][2][2][2]tileKernel{
		{
			{{tiles1x1of1x1AMX, tiles1x1of1x3AMX}, {tiles1x1of3x1AMX, tiles1x1of3x3AMX}},
			{{tiles1x2of1x1AMX, tiles1x2of1x3AMX}, {tiles1x2of3x1AMX, tiles1x2of3x3AMX}},
		},
		{
			{{tiles2x1of1x1AMX, tiles2x1of1x3AMX}, {tiles2x1of3x1AMX, tiles2x1of3x3AMX}},
			{{tiles2x2of1x1AMX, tiles2x2of1x3AMX}, {tiles2x2of3x1AMX, tiles2x2of3x3AMX}},
		},
	},
	split: splitAMX, narrow: narrowAMX, pair: pairAMX,
}
