package nn

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// What Context.CheckpointParts names of a layer besides the whole of it, as the paths of sites do.
const (
	AttentionPart = "self_attn" // the norm, q, k and v, and plain attention; not what a kernel makes of all pairs of tokens
	BlockPart     = "mlp"       // the norm and the block
)

// LayersPath is what the path of a layer begins with.
const LayersPath = "layers."

// LayerPart names a part of a decoder's layer that Context.CheckpointParts may have; without a part, the whole layer.
func LayerPart(layer int, part string) string {
	path := LayersPath + strconv.Itoa(layer)
	if part != "" {
		path += "." + part
	}
	return path
}

// PartsOfLayers are the second arguments of LayerPart: both parts, and what stands for the whole layer.
func PartsOfLayers() []string { return []string{AttentionPart, BlockPart, ""} }

// ParseLayerPart returns what LayerPart was given.
func ParseLayerPart(path string) (layer int, part string, err error) {
	number, part, _ := strings.Cut(strings.TrimPrefix(path, LayersPath), ".")
	layer, err = strconv.Atoi(number)
	if err != nil || layer < 0 || !slices.Contains(PartsOfLayers(), part) || LayerPart(layer, part) != path {
		return 0, "", fmt.Errorf("%q is no part of a layer: they are layers.N, layers.N.%s and layers.N.%s, and layers are "+
			"counted from 0", path, AttentionPart, BlockPart)
	}
	return layer, part, nil
}

// checkParts returns an error for parts of layers that a model of so many does not have.
func (c *Context) checkParts(layers int) error {
	for _, p := range c.CheckpointParts {
		switch n, _, err := ParseLayerPart(p); {
		case err != nil:
			return fmt.Errorf("nn: %w", err)
		case n >= layers:
			return fmt.Errorf("nn: %s is to be computed again, and the last layer is %s", p, LayerPart(layers-1, ""))
		}
	}
	return nil
}

// computesAgain reports whether Checkpoint is of a part of a layer.
func (c *Context) computesAgain(layer int, part string) bool {
	return c.Checkpoint && (c.CheckpointParts == nil || slices.Contains(c.CheckpointParts, LayerPart(layer, part)))
}

// enterLayer begins the record of a layer, and returns what ends it.
func (c *Context) enterLayer(number int) (leave func()) {
	c.number = number
	if c.whole = c.computesAgain(number, ""); !c.whole {
		return c.costly // whatever the block has done
	}
	end := c.enterRegion()
	return func() { c.costly(); end(); c.whole = false }
}

// enterPart begins the record of a part of the layer, which is computed again or may begin with something cheap. It
// returns what ends it.
func (c *Context) enterPart(part string, cheap bool) (leave func()) {
	switch {
	case !c.whole && c.computesAgain(c.number, part):
		c.costly()
		return c.enterRegion()
	case cheap:
		c.cheap()
	}
	return func() {}
}

// enterRegion has what is recorded from now on computed again, until the function that it returns is called.
func (c *Context) enterRegion() (leave func()) {
	end := c.G.Checkpoint()
	c.again = true
	return func() { end(); c.again = false }
}
