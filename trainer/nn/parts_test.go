package nn

import (
	"strings"
	"testing"
)

func TestPartsOfLayersAreNamedInOneWay(t *testing.T) {
	for _, part := range PartsOfLayers() {
		for _, layer := range []int{0, 7, 120} {
			path := LayerPart(layer, part)
			if n, p, err := ParseLayerPart(path); n != layer || p != part || err != nil {
				t.Errorf("%s is layer %d, part %q, %v", path, n, p, err)
			}
		}
	}
	for _, path := range []string{"", "3", "layers", "layers.", "layers.-1", "layers.+1", "layers.01", "layers.1.", "layers.1.head",
		"layers.x.mlp", "layers.1.mlp.", "model.layers.1", "layers.1 ", "layers.99999999999999999999"} {
		if _, _, err := ParseLayerPart(path); err == nil || !strings.Contains(err.Error(), "is no part of a layer") {
			t.Errorf("%q: %v", path, err)
		}
	}
}
