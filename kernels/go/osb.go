// Package osb is what the kernel and its cells share.
package osb

// ShowFunc is the kernel's.
var ShowFunc func(values ...interface{})

// Show shows the value of a cell.
func Show(values ...interface{}) { ShowFunc(values...) }
