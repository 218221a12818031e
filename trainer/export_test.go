package trainer

// PartsOf has so many elements of a large gradient be in memory at a time.
func PartsOf(elems int) { partElems = elems }
