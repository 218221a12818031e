package kerneltest

// Huge is huge, which tests call with fewer elements.
var Huge = huge

// AnyOrder is anyOrder.
var AnyOrder = anyOrder
